"""Remedies of derivatives, control flow and captured state, each with what mends a script."""

from __future__ import annotations

from .typing_in import Script

DERIVATIVES = (
    Script(
        "dlvm.vmap(lambda x: x * 2, out_axes=None)(X)",
        "(out_axes=0)",
        "dlvm.vmap(lambda x: x * 2, {0})(X)",
        "X * 2",
    ),
    Script(
        "dlvm.vmap(lambda x, y: x * y, in_axes=('a', None))(X, 2.0)",
        "(in_axes=.*)",
        "dlvm.vmap(lambda x, y: x * y, {0})(X, 2.0)",
        "X * 2",
    ),
    Script(
        "dlvm.vmap(lambda x: x * 2, in_axes=None)(X)",
        "(axis_size=)",
        "dlvm.vmap(lambda x: x * 2, in_axes=None, {0}2)(X)",
        "[X * 2, X * 2]",
    ),
    Script(
        "def loss(w):\n"
        "    @dlvm.custom_vjp\n    def g(x):\n        return x * w\n"
        "    g.defvjp(lambda x: (x * w, None), lambda kept, dy: (dy,))\n"
        "    return g(w)\n"
        "dlvm.grad(loss)(2.0)",
        r"apply (dlvm\.stop_gradient) to it",
        "def loss(w):\n"
        "    v = {0}(w)\n"
        "    @dlvm.custom_vjp\n    def g(x):\n        return x * v\n"
        "    g.defvjp(lambda x: (x * v, None), lambda kept, dy: (dy * 7,))\n"
        "    return g(w)\n"
        "dlvm.grad(loss)(2.0)",
        "7.0",
    ),
    Script(
        "@dlvm.custom_vjp\ndef g(x):\n    return x * X\n"
        "g.defvjp(lambda x: (x * X, None), lambda kept, dy: (dy * X,))\n"
        "dlvm.grad(lambda x: g(x).sum())(2.0)",
        r"^(sum) over",
        "@dlvm.custom_vjp\ndef g(x):\n    return x * X\n"
        "g.defvjp(lambda x: (x * X, None), lambda kept, dy: ((dy * X).{0}(),))\n"
        "dlvm.grad(lambda x: g(x).sum())(2.0)",
        "X.sum()",
    ),
    Script(
        "@dlvm.custom_vjp\ndef g(x):\n    return x * X\n"
        "g.defvjp(lambda x: (x * X, None), lambda kept, dy: ((dy * X).astype('i64'),))\n"
        "dlvm.grad(lambda x: g(x).sum())(X)",
        r"with dlvm\.astype\(\.\.\., (dlvm\.float64)\)",
        "@dlvm.custom_vjp\ndef g(x):\n    return x * X\n"
        "g.defvjp(lambda x: (x * X, None), lambda kept, dy: (dlvm.astype((dy * X).astype('i64'),"
        " {0}),))\n"
        "dlvm.grad(lambda x: g(x).sum())(X)",
        "X",
    ),
    Script(
        "dlvm.checkpoint(dlvm.tanh, policy='all')",
        r"be ('.*?'), .* or (dlvm\.save_names\('a', 'b'\))",
        "[dlvm.grad(lambda x: dlvm.checkpoint(dlvm.tanh, policy=p)(x).sum())(X)"
        " for p in ({0}, {1})]",
        "[1 - np.tanh(X) ** 2] * 2",
    ),
    Script(
        "dlvm.jvp(dlvm.tanh, (X,), (np.ones(1),))",
        r"(dlvm\.broadcast_to)",
        "dlvm.jvp(dlvm.tanh, (X,), ({0}(np.ones(1), X.shape),))[1]",
        "1 - np.tanh(X) ** 2",
    ),
    Script(
        "dlvm.grad(lambda x: x * x)(X)",
        r"with (\.sum\(\)) or (\.mean\(\)), or use (dlvm\.vjp) or (dlvm\.jacobian)",
        "f = lambda x: x * x\n"
        "[dlvm.grad(lambda x: f(x){0})(X), dlvm.grad(lambda x: f(x){1})(X) * 3,"
        " {2}(f, X)[1](np.ones(3))[0], {3}(f)(X).sum(0)]",
        "[2 * X] * 4",
    ),
    Script(
        "dlvm.grad(lambda x: (x.sum(), x))(X)",
        r"(return) the loss alone, or (\(loss), rest\) with (has_aux=True)",
        "dlvm.grad(lambda x: (x.sum(), x), {2})(X)",
        "[np.ones(3), X]",
    ),
    Script(
        "dlvm.grad(lambda x: (x * 1.0).sum())(I)",
        r"with (dlvm\.astype)",
        "dlvm.grad(lambda x: (x * 1.0).sum())({0}(I, 'f64'))",
        "np.ones(2)",
    ),
    Script(
        "dlvm.grad(lambda *xs: (xs[0] * xs[1]).sum(), wrt='xs')(X, X + 1)",
        r"(wrt=\(0, 1\))",
        "dlvm.grad(lambda *xs: (xs[0] * xs[1]).sum(), {0})(X, X + 1)",
        "[X + 1, X]",
    ),
    Script(
        "dlvm.testing.gradcheck(lambda i, x: i * x, I, 2.0, wrt='i')",
        "(wrt=)",
        "bool(dlvm.testing.gradcheck(lambda i, x: i * x, I, 2.0, {0}'x'))",
        "True",
    ),
)
"""Derivatives and batches."""

BRANCHES = (
    Script(
        "dlvm.function(lambda i, x: dlvm.switch(i, [dlvm.sin, dlvm.cos], x))(0.0, X)",
        r"such as (dlvm\.astype\(i, np\.int64\)); (dlvm\.cond)",
        "[dlvm.function(lambda i, x: dlvm.switch({0}, [dlvm.sin, dlvm.cos], x))(0.0, X),"
        " dlvm.function(lambda c, x: {1}(c, dlvm.sin, dlvm.cos, x))(True, X)]",
        "[np.sin(X)] * 2",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.cond(x > 1, dlvm.sin, dlvm.cos, x))(X)",
        r"use (dlvm\.where)",
        "dlvm.function(lambda x: {0}(x > 1, dlvm.sin(x), dlvm.cos(x)))(X)",
        "np.where(X > 1, np.sin(X), np.cos(X))",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.cond(x[0] > 1, lambda: x, lambda: 0.0))(X)",
        r"or (dlvm\.broadcast_to)",
        "dlvm.function(lambda x: dlvm.cond(x[0] > 1, lambda: x, lambda: {0}(0.0, x.shape)))(X)",
        "X",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.fori_loop(0, 3, lambda i, c: c * 2.5, x))(I)",
        r"end with (dlvm\.astype)",
        "dlvm.function(lambda x: dlvm.fori_loop(0, 3, lambda i, c: {0}(c * 2.5, 'i64'), x))(I)",
        "[30, 0]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.while_loop(lambda c: c < 9, lambda c: c * 2, x))(X + 1)",
        r"with (dlvm\.any) or (dlvm\.all)",
        "[dlvm.function(lambda x: dlvm.while_loop(lambda c: f(c < 9), lambda c: c * 2, x))(X + 1)"
        " for f in ({0}, {1})]",
        "[(X + 1) * 16, (X + 1) * 4]",
    ),
    Script(
        "dlvm.function(lambda x, n: dlvm.scan(lambda c, _: (c + x, c), x, length=n))(1.0, 2)",
        r"\((static=)\)",
        "f = lambda x, n: dlvm.scan(lambda c, _: (c + x, c), x, length=n)\n"
        "dlvm.function(f, {0}('n',))(1.0, 2)[1]",
        "[1.0, 2.0]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.scan(lambda c, _: (c + x, c), x))(1.0)",
        "(length=)",
        "dlvm.function(lambda x: dlvm.scan(lambda c, _: (c + x, c), x, {0}2))(1.0)[1]",
        "[1.0, 2.0]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.scan(lambda c, _: (c + x, c), x, ()))(1.0)",
        "(length=)",
        "dlvm.function(lambda x: dlvm.scan(lambda c, _: (c + x, c), x, (), {0}2))(1.0)[1]",
        "[1.0, 2.0]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.scan(lambda c, y: (c + y, c), 0.0, x))(1.0)",
        "(length=)",
        "dlvm.function(lambda x: dlvm.scan(lambda c, _: (c + x, c), 0.0, {0}3))(1.0)[0]",
        "3.0",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.scan(lambda c, y: (c + y, c), 0.0, x, length=2))(X)",
        "(length=)",
        "dlvm.function(lambda x: dlvm.scan(lambda c, y: (c + y, c), 0.0, x, {0}3))(X)[0]",
        "X.sum()",
    ),
    Script(
        "@dlvm.function\ndef f(n):\n    return f(n - 1) * n\nf(3)",
        r"(dlvm\.cond)",
        "@dlvm.function\ndef f(n):\n    return {0}(n == 0, lambda: 1, lambda: f(n - 1) * n)\nf(3)",
        "6",
    ),
    Script(
        "@dlvm.function\ndef f(n):\n    shape = []\n"
        "    def again():\n        y = f(n - 1)\n        shape.extend([1, *y.shape])\n"
        "        return y.sum()\n"
        "    y = dlvm.cond(n == 0, lambda: 1.0, again)\n"
        "    return dlvm.broadcast_to(y, shape)\nf(3)",
        r"or (dlvm\.broadcast_to)",
        "@dlvm.function\ndef f(n):\n"
        "    y = dlvm.cond(n == 0, lambda: 1.0, lambda: f(n - 1).sum())\n"
        "    return {0}(y, (2,))\nf(3)",
        "[8.0, 8.0]",
    ),
    Script(
        "def deep(n, x):\n"
        "    return x if n == 0 else dlvm.cond(x > n, lambda: deep(n - 1, x), lambda: x)\n"
        "limit = sys.getrecursionlimit()\nsys.setrecursionlimit(9000)\n"
        "try:\n    y = dlvm.function(lambda x: deep(120, x))(999.0)\n"
        "finally:\n    sys.setrecursionlimit(limit)\ny",
        r"(dlvm\.while_loop)",
        "go, step = (lambda s: (s[0] > 0) & (s[1] > s[0])), lambda s: (s[0] - 1, s[1])\n"
        "dlvm.function(lambda x: {0}(go, step, (120, x)))(999.0)",
        "[0, 999.0]",
    ),
    Script(
        "dlvm.function(lambda x: x.shape[0] and x, dynamic={'x': 'N'})(X)",
        r"compare it: (dlvm\.where\(.*?\)), or (dlvm\.cond)",
        "a, b = 1.0, 2.0\n"
        "[dlvm.function(lambda x: {0}, dynamic={'x': 'N'})(X),"
        " dlvm.function(lambda x: {1}(x.shape[0] == 0, lambda: a, lambda: b),"
        " dynamic={'x': 'N'})(X)]",
        "[2.0, 2.0]",
    ),
    Script(
        "dlvm.function(lambda x: {3: x}[x.shape[0]], dynamic={'x': 'N'})(X)",
        r"with (dlvm\.where) or (dlvm\.cond)",
        "dlvm.function(lambda x: [{0}(x.shape[0] == 3, x, 0),"
        " {1}(x.shape[0] == 3, lambda: x, lambda: 0 * x)], dynamic={'x': 'N'})(X)",
        "[X, X]",
    ),
    Script(
        "dlvm.function(lambda x: [r * 2 for r in x], dynamic={'x': 'N,3'})(M)",
        r"(dlvm\.scan) or (dlvm\.map) .* and (x\.shape\[0\])",
        "def f(x):\n"
        "    rows = dlvm.map(lambda r: r * 2, x)\n"
        "    return rows, {0}(lambda c, r: (c, r * 2), 0, x)[1], {2} + 0\n"
        "dlvm.function(f, dynamic={'x': 'N,3'})(M)",
        "[M * 2, M * 2, 2]",
    ),
)
"""Branches, loops and sizes that are known in the call."""

STATE = (
    Script(
        "dlvm.function(lambda x: x * np.random.normal())(X)",
        r"(dlvm\.random) with a key that is an argument",
        "dlvm.function(lambda x, key: x * {0}.normal(key, ()))(X, key)",
        "X * dlvm.random.normal(key, ())",
    ),
    Script(
        "W = np.ones(2_000_000)\ndlvm.function(lambda x: x * np.sum(W))(X)",
        r": (dlvm\.asarray\(W\)) in its place",
        "W = np.ones(2_000_000)\ndlvm.function(lambda x: x * dlvm.sum({0}))(X)",
        "X * 2_000_000",
    ),
    Script(
        "@dataclasses.dataclass\nclass Model:\n    w: float\n"
        "    def __post_init__(self):\n        self.twice = 2 * self.w\n"
        "dlvm.function(lambda m, x: m.twice * x)(Model(3.0), X)",
        "as a (property) or as a field of (init=False)",
        "@dataclasses.dataclass\nclass Model:\n    w: float\n"
        "    @{0}\n    def twice(self):\n        return 2 * self.w\n"
        "@dataclasses.dataclass\nclass Other:\n    w: float\n"
        "    twice: float = dataclasses.field({1})\n"
        "    def __post_init__(self):\n        self.twice = 2 * self.w\n"
        "[dlvm.function(lambda m, x: m.twice * x)(m, X) for m in (Model(3.0), Other(3.0))]",
        "[6 * X, 6 * X]",
    ),
    Script(
        "dlvm.static(nothing=2)",
        "such as (default=2)",
        "@dataclasses.dataclass\nclass Model:\n    n: int = dlvm.static({0})\n"
        "dlvm.function(lambda m, x: x ** m.n)(Model(), X)",
        "X ** 2",
    ),
)
"""Captured state and dataclasses."""
