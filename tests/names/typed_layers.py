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
        "m = dlvm.nn.metrics.AUC()\nm.update(m.init(), M, I)",
        r"class: (softmax\(x\).*)",
        "from dlvm.nn import metrics, softmax\nm, x = metrics.AUC(), np.eye(2)\n"
        "m.compute(m.update(m.init(), {0}, np.array([0, 1])))",
        "1.0",
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
