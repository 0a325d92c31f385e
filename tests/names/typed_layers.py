"""Remedies of layers, each with a refused script and what mends it."""

from __future__ import annotations

from .typing_in import Script

LAYERS = (
    Script(
        "q = np.ones((1, 2, 3, 4))\ndlvm.nn.dot_product_attention(q, q[:, :, :2], q)",
        r"pass (dlvm\.swapaxes.*)",
        "q, x = np.ones((1, 2, 3, 4)), np.ones((1, 2, 2, 4))\n"
        "x = {0}\ndlvm.nn.dot_product_attention(np.ones((1, 3, 2, 4)), x, x)",
        "np.ones((1, 3, 2, 4))",
    ),
    Script(
        "dlvm.nn.embedding(M, X)",
        r"with (dlvm\.astype.*)",
        "ids = np.array([1.0, 0.0])\ndlvm.nn.embedding(M, {0})",
        "M[[1, 0]]",
    ),
    Script(
        "dlvm.nn.initializers.he_normal()(key, (3,))",
        r"take (initializers\.normal\(.*\))",
        "from dlvm.nn import initializers\n{0}(key, (3,), 'f64') / 0.1",
        "dlvm.random.normal(key, (3,))",
    ),
    Script(
        "dlvm.nn.Dropout(1.0)(X)",
        r"pass (key=.*\)), or (training=\w+) ",
        "dlvm.nn.Dropout(1.0)(X, {0}) + dlvm.nn.Dropout(1.0)(X, {1})",
        "X",
    ),
    Script(
        "dlvm.nn.LoRA(key, dlvm.nn.LayerNorm(3))",
        r"adapted: (nn\.LoRA\(.*\))",
        "nn, k, x = dlvm.nn, key, np.ones((1, 4), 'f4')\n{0}(x) - nn.Linear(k, 4, 8)(x)",
        "np.zeros((1, 8))",
    ),
    Script(
        "q = np.ones((1, 4, 1, 2))\ndlvm.nn.dot_product_attention(q, q, q, local_window_size=-1)",
        r"are (local_window_size=.*)",
        "q, v = np.ones((1, 5, 1, 2)), np.arange(10.0).reshape(1, 5, 1, 2)\n"
        "dlvm.nn.dot_product_attention(q, q, v, {0})[0, 4, 0]",
        "np.array([5.0, 6.0])",
    ),
    Script(
        "dlvm.nn.WeightNorm(dlvm.nn.LayerNorm(3))",
        r"weight: (nn\..*\))",
        "nn, x = dlvm.nn, np.ones((1, 4), 'f4')\nnorm = {0}\nnorm(x) - norm.layer(x)",
        "np.zeros((1, 8))",
    ),
    Script(
        "dlvm.nn.group_norm(X, 1)",
        r"front: (x\[None\])",
        "x = X\ndlvm.nn.group_norm({0}, 1, eps=0.0)[0]",
        "(X - X.mean()) / X.std()",
    ),
    Script(
        "dlvm.nn.rnn_cell(X, X, np.eye(3), np.eye(3), nonlinearity='sine')",
        "pass (nonlinearity=.*)",
        "dlvm.nn.rnn_cell(X, X, np.eye(3), np.eye(3), {0})",
        "np.tanh(X + X)",
    ),
    Script(
        "dlvm.nn.mse_loss(X, X + 2, reduction='average')",
        "pass (reduction=.*?) for",
        "dlvm.nn.mse_loss(X, X + 2, {0})",
        "4.0",
    ),
    Script(
        "dlvm.nn.dice_loss(X, X)",
        r"axis: (x\[\.\.\., None\])",
        "x = X\ndlvm.nn.dice_loss({0}, 0 * {0})",
        "1 - 1 / (0.5 / (1 + np.exp(-X)) + 1)",
    ),
    Script(
        "z = np.zeros((1, 1))\ndlvm.nn.ctc_loss(z[..., None], z, z, z, blank_id=-1)",
        "write (blank_id=.*) for",
        "z = np.zeros((1, 1))\ndlvm.nn.ctc_loss(z[..., None], z, z, z + 1, {0})",
        "[0.0]",
    ),
    Script(
        "m = dlvm.nn.metrics.AUC()\nm.update(m.init(), M, I)",
        r"class: (softmax\(x\).*)",
        "from dlvm.nn import metrics, softmax\nm, x = metrics.AUC(), np.eye(2)\n"
        "m.compute(m.update(m.init(), {0}, np.array([0, 1])))",
        "1.0",
    ),
    Script(
        "layer = dlvm.nn.MultiHeadAttention(key, 1, 2)\nlayer(M[None, :, :2], cache={'key': 0})",
        r": (layer\.init_cache\(.*\))",
        "batch, length, x = 1, 2, np.ones((1, 1, 2))\n"
        "layer = dlvm.nn.MultiHeadAttention(key, 1, 2, dtype='f64')\nlayer(x, cache={0})[0]",
        "dlvm.nn.MultiHeadAttention(key, 1, 2, dtype='f64')(np.ones((1, 1, 2)))",
    ),
    Script(
        "dlvm.nn.embedding_bag(M, I, weights=X[:2])",
        "write (mode=.*)",
        "dlvm.nn.embedding_bag(M, np.array([0, 1]), {0}, weights=np.array([1.0, 2.0]))",
        "M[0] + 2 * M[1]",
    ),
    Script(
        "dlvm.nn.initializers.orthogonal()(key, (3,))",
        r"take (initializers\.normal\(.*\))",
        "from dlvm.nn import initializers\n{0}(key, (3,), 'f64') / 0.1",
        "dlvm.random.normal(key, (3,))",
    ),
    Script(
        "dlvm.nn.initializers.delta_orthogonal()(key, (3, 3))",
        r"take (initializers\.orthogonal\(.*\))",
        "from dlvm.nn import initializers\nw = {0}(key, (3, 3), 'f64')\nw @ w.T",
        "np.eye(3)",
    ),
    Script(
        "dlvm.nn.Conv(key, 1, 1, 0)",
        "write (kernel_size=.*) for images, or (kernel_size=.*) for",
        "[dlvm.nn.Conv(key, 1, 1, {0}).weight.shape, dlvm.nn.Conv(key, 1, 1, {1}).weight.shape]",
        "[(3, 3, 1, 1), (3, 1, 1)]",
    ),
    Script(
        "dlvm.nn.Flatten()(X)",
        r"write (nn\.Flatten\(.*\))",
        "from dlvm import nn\n{0}(M)",
        "M.ravel()",
    ),
    Script(
        "dlvm.nn.Sequential([dlvm.nn.BatchNorm(2)])(np.eye(2), state=1)",
        r"pass (state=.*?),",
        "net = dlvm.nn.Sequential([dlvm.nn.BatchNorm(2, dtype='f64')])\nnet(np.eye(2), {0})[0]",
        "(np.eye(2) - 0.5) / np.sqrt(0.25 + 1e-5)",
    ),
    Script(
        "dlvm.nn.RNN(key, 1, 1, False)",
        "pass (num_layers=.*?),",
        "dlvm.nn.RNN(key, 1, 1, {0}, bias=False).b_ih is None",
        "True",
    ),
    Script(
        "dlvm.nn.adaptive_avg_pool(np.ones((1, 0, 1)), 2)",
        "pass (output_size=.*) for",
        "dlvm.nn.adaptive_avg_pool(np.ones((1, 0, 1)), {0})",
        "np.ones((1, 0, 1))",
    ),
    Script(
        "dlvm.nn.adaptive_max_pool(X[None, :, None], 0)",
        "write (output_size=.*) for",
        "dlvm.nn.adaptive_max_pool(X[None, :, None], {0})",
        "np.full((1, 1, 1), 3.0)",
    ),
    Script(
        "dlvm.trace(lambda x: dlvm.nn.adaptive_avg_pool(x, 2), dlvm.spec('f64[1,N,1]'))",
        "write (output_size=.*?),",
        "f = lambda x: dlvm.nn.adaptive_avg_pool(x, {0})\n"
        "dlvm.function(f, dynamic={'x': '1,N,1'})(X[None, :, None])",
        "np.full((1, 1, 1), X.mean())",
    ),
    Script(
        "dlvm.nn.interpolate(X[None, :, None], 5, mode='bilinear')",
        "write (mode=.*?),",
        "dlvm.nn.interpolate(X[None, :, None], 5, {0}, align_corners=True)[0, :, 0]",
        "[3.0, 1.5, 0.0, 1.0, 2.0]",
    ),
    Script(
        "dlvm.nn.interpolate(X[None, :, None])",
        "write (scale_factor=.*)",
        "dlvm.nn.interpolate(X[None, :, None], {0})[0, :, 0]",
        "np.repeat(X, 2)",
    ),
    Script(
        "dlvm.trace(lambda x: dlvm.nn.interpolate(x, 4), dlvm.spec('f64[1,N,1]'))",
        "write (scale_factor=.*?),",
        "f = lambda x: dlvm.nn.interpolate(x, {0})\n"
        "dlvm.function(f, dynamic={'x': '1,N,1'})(X[None, :, None])[0, :, 0]",
        "np.repeat(X, 2)",
    ),
    Script(
        "dlvm.nn.summary(dlvm.nn.relu, dlvm.spec('f32[3]'))",
        r": (nn\.Sequential\(.*\))",
        "from dlvm import nn\nnet = nn.relu\nnn.summary({0}, dlvm.spec('f32[3]')).rows[0].shape",
        "'(3,)'",
    ),
    Script(
        "dlvm.optim.piecewise_interpolate_schedule('cubic', 1.0)",
        "pass (interpolate_type=.*)",
        "dlvm.optim.piecewise_interpolate_schedule({0}, init_value=1.0)(3)",
        "1.0",
    ),
    Script(
        "m = dlvm.optim.reduce_on_plateau()\nm.update(X, m.init(X), X)",
        "call (update.*)",
        "m = dlvm.optim.reduce_on_plateau()\nupdate, state = m.update, m.init(X)\n"
        "grads, params, loss = X, X, 1.0\n{0}[0]",
        "X",
    ),
)
"""Layers, initialisers, losses, metrics and optimisers."""
