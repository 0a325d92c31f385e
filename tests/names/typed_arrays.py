"""Remedies of functions of arrays, each with a script that is refused and what mends it."""

from __future__ import annotations

from .typing_in import Script

MAKES = (
    Script(
        "dlvm.function(lambda x: dlvm.bincount(x))(I)",
        r"(dlvm\.bincount\(x, length=)n\)",
        "dlvm.function(lambda x: {0}3))(I)",
        "np.bincount(I)",
    ),
    Script(
        "dlvm.histogram(X, bins=M)", "(bins=10)", "dlvm.histogram(X, {0})", "np.histogram(X, 10)"
    ),
    Script(
        "dlvm.function(lambda x: dlvm.vander(x), dynamic={'x': 'N'})(X)",
        r"(dlvm\.vander\(x, 4\))",
        "dlvm.function(lambda x: {0}, dynamic={'x': 'N'})(X)",
        "np.vander(X, 4)",
    ),
    Script(
        "dlvm.function(lambda x: x[False])(X)",
        "write (.*)",
        "dlvm.function(lambda x: {0})(X)",
        "X[False]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.asarray(x, dtype='f32', copy=False))(X)",
        "leave out (copy=False)",
        "",
        "X",
    ),
    Script("dlvm.from_dlpack([1, 2])", "write (.*), which", "x = [1, 2]\n{0}", "[1, 2]"),
    Script(
        "dlvm.linalg.multi_dot([B, B])",
        "write (x @ y)",
        "dlvm.function(lambda x, y: {0})(B, B)",
        "B @ B",
    ),
    Script(
        "dlvm.linalg.matrix_power(M, 2)",
        r"(x \*\* n)",
        "n = 2\ndlvm.function(lambda x: {0})(M)",
        "M ** 2",
    ),
    Script(
        "dlvm.linalg.norm(B, ord=2)",
        "(axis=)",
        "dlvm.linalg.norm(B, ord=2, {0}1)",
        "np.linalg.norm(B, ord=2, axis=1)",
    ),
    Script(
        "dlvm.function(lambda x, y: x @ y)(M, M)",
        r"(x @ y\.mT)",
        "dlvm.function(lambda x, y: {0})(M, M)",
        "M @ M.T",
    ),
    Script(
        "dlvm.function(lambda x, y: x @ y)(M.T, B[0])",
        r"make both 2 or both 3; (x\.mT) exchanges",
        "dlvm.function(lambda x, y: {0} @ y)(M.T, B[0])",
        "M @ B[0]",
    ),
    Script(
        "dlvm.cross(M, M[0], axis=0)",
        "(axis=)",
        "dlvm.cross(M, M[0], {0}-1)",
        "np.cross(M, M[0])",
    ),
    Script(
        "dlvm.tensordot(M, M.T, axes=([1], [0], [0]))",
        r"(axes=1) .* (axes=\(\[1\], \[0\]\))",
        "[dlvm.tensordot(M, M.T, {0}), dlvm.tensordot(M, M.T, {1})]",
        "[M @ M.T, M @ M.T]",
    ),
    Script(
        "dlvm.einsum(M, [0, 99], M.T, [1, 2])",
        "write the labels as text: (.*)",
        "x, y = M, M.T\n{0}",
        "M @ M.T",
    ),
)
"""Functions that make arrays, and products."""

PLACES = (
    Script(
        "dlvm.function(lambda x: x[x.shape[0] - 1], dynamic={'x': 'N'})(X)",
        r"(x\[dlvm\.asarray\(n\)\])",
        "def f(x):\n    n = x.shape[0] - 1\n    return {0}\n"
        "dlvm.function(f, dynamic={'x': 'N'})(X)",
        "X[-1]",
    ),
    Script(
        "dlvm.function(lambda x: x[1.0])(X)",
        r"such as (int\(i\))",
        "i = 1.0\ndlvm.function(lambda x: x[{0}])(X)",
        "X[1]",
    ),
    Script(
        "dlvm.function(lambda x, i: x[i])(X, I * 1.0)",
        r"with (dlvm\.astype.*)",
        "dlvm.function(lambda x, i: x[{0}])(X, I * 1.0)",
        "X[I]",
    ),
    Script(
        "dlvm.function(lambda x, i: x[i : i + 2])(X, 1)",
        "with (.*)",
        "n = 2\ndlvm.function(lambda x, i: {0})(X, 1)",
        "X[1:3]",
    ),
    Script(
        "dlvm.function(lambda x, i: x[i])(X, 7)",
        '(mode="clip") or (mode="drop")',
        "dlvm.function(lambda x, i: dlvm.take(x, i, {0}))(X, 7)",
        "X.take(7, mode='clip')",
    ),
    Script(
        "def f(x, mask, v):\n    x = dlvm.copy(x)\n    x[mask] = v\n    return x\n"
        "dlvm.function(f)(X, X > 1, X[:2])",
        "place: (.*)",
        "def f(x, mask, v):\n    x = dlvm.copy(x)\n    {0}\n    return x\n"
        "dlvm.function(f)(X, X > 1, X * 10)",
        "np.where(X > 1, X * 10, X)",
    ),
    Script(
        "def f(x, v):\n    x = dlvm.copy(x)\n    x += v\n    return x\ndlvm.function(f)(I, X[:2])",
        "write (x = x [+] v)",
        "def f(x, v):\n    x = dlvm.copy(x)\n    {0}\n    return x\ndlvm.function(f)(I, X[:2])",
        "I + X[:2]",
    ),
    Script(
        "def f(i):\n    x = X * 1\n    dlvm.put_along_axis(x, i, 7.0, 0)\n    return x\n"
        "dlvm.function(f)(I)",
        r"write (x = dlvm\.copy\(x\))",
        "def f(i):\n    x = X * 1\n    {0}\n    dlvm.put_along_axis(x, i, 7.0, 0)\n    return x\n"
        "dlvm.function(f)(I)",
        "[7.0, 0, 7]",
    ),
    Script(
        "dlvm.function(lambda x, n: dlvm.repeat(x, n))(X, 2)",
        r"(dlvm\.take\(x, positions\))",
        "positions = [0, 0, 1, 1, 2, 2]\ndlvm.function(lambda x: {0})(X)",
        "np.repeat(X, 2)",
    ),
    Script("dlvm.rot90(X)", r"pair: (\(0, 1\))", "dlvm.rot90(M, axes={0})", "np.rot90(M)"),
    Script(
        "dlvm.reshape(np.asarray(M.T), (6,), copy=False)",
        "write (copy=None)",
        "dlvm.reshape(M.T, (6,), {0})",
        "M.T.reshape(6)",
    ),
    Script(
        "dlvm.sliding_window_view(M, 2)",
        "(axis=0)",
        "dlvm.sliding_window_view(M, 2, {0})",
        "np.lib.stride_tricks.sliding_window_view(M, 2, axis=0)",
    ),
    Script(
        "dlvm.concat([X, X], dtype='i64')",
        '(casting="unsafe")',
        "dlvm.concat([X, X], dtype='i64', {0})",
        "np.concatenate([X, X]).astype(int)",
    ),
)
"""Elements and slices, and shapes."""

ORDERS = (
    Script(
        "dlvm.function(lambda x: dlvm.top_k(x, 2)[0], dynamic={'x': 'N'})(X)",
        "has them: (dynamic=.*?}) .* take what there is: (.*) has",
        "[dlvm.function(lambda x: dlvm.top_k(x, 2)[0], {0})(X),"
        " dlvm.function(lambda x: {1}, dynamic={'x': 'N'})(X)]",
        "[[3, 2], [3, 2, 0]]",
    ),
    Script(
        "dlvm.searchsorted(M, X[:2])",
        r"(dlvm\.vmap\(dlvm\.searchsorted\))",
        "{0}(M, X[:2])",
        "[np.searchsorted(M[0], X[0]), np.searchsorted(M[1], X[1])]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.unique_values(x))(X)",
        "neighbour: (.*)",
        "def f(x):\n    y = dlvm.sort(x)\n    return {0}\ndlvm.function(f)(np.array([1, 2, 1]))",
        "[False, True]",
    ),
    Script(
        "dlvm.cumulative_sum(M)",
        r"pass (axis=), or .* by (.*)",
        "x = M\n[dlvm.cumulative_sum(M, {0}0), dlvm.{1}]",
        "[np.cumsum(M, 0), np.cumsum(M)]",
    ),
    Script(
        "dlvm.argmax(X, where=X > 2)",
        r"(dlvm\.where\(mask, x, -dlvm\.inf\))",
        "mask = X < 3\ndlvm.argmax(dlvm.function(lambda x: {0})(X))",
        "2",
    ),
    Script(
        "dlvm.average(B, weights=X)",
        "write (axis=0)",
        "dlvm.average(B, {0}, weights=X[1:])",
        "np.average(B, 0, X[1:])",
    ),
    Script(
        "dlvm.polygamma(X + 1, 1)",
        "write (.*), with",
        "x = X + 1\n{0}",
        "[sum(1 / (v + np.arange(1e6)) ** 2) + 1 / (v + 1e6 - 0.5) for v in X + 1]",
    ),
    Script(
        "dlvm.interp(X[:2], M, M)",
        r"(dlvm\.vmap\(dlvm\.interp\))",
        "{0}(X[:2], M, M * 2)",
        "[4.0, 6.0]",
    ),
    Script(
        "dlvm.convolve(M, M)",
        r"(dlvm\.vmap\(dlvm\.convolve\))",
        "{0}(M, M)",
        "[np.convolve(r, r) for r in M]",
    ),
    Script(
        "dlvm.function(lambda x, y: dlvm.convolve(x, y), dynamic={'x': 'N', 'y': 'K'})(X, X)",
        '(mode="full")',
        "dlvm.function(lambda x: dlvm.convolve(x, np.ones(2), {0}), dynamic={'x': 'N'})(X)",
        "np.convolve(X, np.ones(2))",
    ),
    Script(
        "dlvm.gradient(X, X)",
        r"divide (dlvm\.diff\(f\)) by (dlvm\.diff\(x\))",
        "f, x = X * X, X\n{0} / {1}",
        "np.diff(X * X) / np.diff(X)",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.add(x, x, out=x))(X)",
        "assign the result: (x = )",
        "def f(x):\n    {0}dlvm.add(x, x)\n    return x\ndlvm.function(f)(X)",
        "X + X",
    ),
    Script("dlvm.nan_to_num(X, copy=False)", "write (.*)", "x = X + np.nan\n{0}\nx", "X * 0"),
    Script(
        "dlvm.function(lambda x: x - x)(X > 1)",
        r"convert them: (x\.astype\(int\))",
        "dlvm.function(lambda x: {0} + 0)(X > 1)",
        "[1, 0, 1]",
    ),
)
"""Orders, statistics, curves and element-wise functions."""

DRAWS = (
    Script(
        "dlvm.random.bits(key, (3,), dtype='f32')",
        r"(dlvm\.random\.uniform) gives floats, (dlvm\.random\.randint) other",
        "x, n = {0}(key, (9,)), {1}(key, (9,), -5, 5)\n"
        "bool(((x >= 0) & (x < 1)).all() and ((n >= -5) & (n < 5)).all())",
        "True",
    ),
    Script(
        "dlvm.random.uniform(dlvm.random.split(key, 2), (3,))",
        r"(dlvm\.vmap) draws",
        "keys = dlvm.random.split(key, 2)\n{0}(lambda k: dlvm.random.uniform(k, (3,)))(keys)",
        "[dlvm.random.uniform(k, (3,)) for k in dlvm.random.split(key, 2)]",
    ),
    Script(
        "dlvm.random.permutation(key, 1.5)",
        r"(dlvm\.random\.permutation\(key, 10\))",
        "np.sort({0})",
        "np.arange(10)",
    ),
    Script(
        "dlvm.random.randint(key, (3,), 0, 5, dtype='f32')",
        r"(dlvm\.random\.uniform)",
        "x = {0}(key, (9,))\nbool(((x >= 0) & (x < 1)).all())",
        "True",
    ),
    Script(
        "dlvm.random.uniform(key, (3,), dtype='i32')",
        r"(dlvm\.random\.randint)",
        "x = {0}(key, (9,), 0, 3)\nbool(np.isin(x, [0, 1, 2]).all())",
        "True",
    ),
    Script("dlvm.random.key(0.5)", r"such as (.*)", "{0}", "key"),
)
"""Random numbers."""
