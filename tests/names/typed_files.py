"""Remedies of batches, files and trees, each with a refused script and what mends it."""

from __future__ import annotations

from .typing_in import Script

SAVED = "import tempfile\npath = tempfile.mkdtemp() + '/a.safetensors'\ndlvm.save(path, {'a': X})\n"

BATCHES = (
    Script(
        "dlvm.batches(X, 5, last='drop')",
        "or (last=.*)",
        "len(dlvm.batches(X, 5, {0}))",
        "1",
    ),
    Script(
        "dlvm.batches(X, 2, last='all')",
        "give (last=.*?) for",
        "len(dlvm.batches(X, 2, {0}))",
        "2",
    ),
    Script(
        "rows = [1.0, 2.0, 3.0]\ndlvm.batches(rows, 2)",
        r"(np\.asarray\(rows\))",
        "rows = [1.0, 2.0, 3.0]\nlen(dlvm.batches({0}, 2))",
        "2",
    ),
    Script(
        "dlvm.batches(X, 2, augment=lambda x, key: x)",
        r"such as (key=.*?), or",
        "len(dlvm.batches(X, 2, augment=lambda x, key: x, {0}))",
        "2",
    ),
    Script(
        "dlvm.batches(X, 2, weights=X)",
        "such as (key=.*)",
        "len(dlvm.batches(X, 2, weights=X, {0}))",
        "2",
    ),
    Script(
        "dlvm.batches(X, 1, threads=2)",
        "give (prefetch=.*) or more",
        "len(list(dlvm.batches(X, 1, threads=2, {0})))",
        "3",
    ),
    Script(
        "dlvm.batches(X, 1, collate=list)",
        "give (transform=),",
        "list(dlvm.batches(X, 3, {0}sum))",
        "[X.sum()]",
    ),
    Script(
        "dlvm.batches(np.ones((3, 16)), 2, lengths=np.array([8, 16, 8]))",
        r"give both: (buckets=\(.*\)),",
        "x = np.ones((3, 32))\nlen(dlvm.batches(x, 2, lengths=np.array([8, 17, 8]), {0}))",
        "2",
    ),
    Script(
        "dlvm.batches(np.ones((3, 64)), 2, lengths=np.array([8, 17, 8]), buckets=(16, 16))",
        r"such as (buckets=\(.*\))",
        "x = np.ones((3, 64))\nlen(dlvm.batches(x, 2, lengths=np.array([8, 17, 8]), {0}))",
        "2",
    ),
)

STREAMS = (
    Script(
        "len(dlvm.batches(iter([1.0, 2.0, 3.0]), 2))",
        r"(enumerate)\(",
        "len(list({0}(dlvm.batches(iter([1.0, 2.0, 3.0]), 2))))",
        "2",
    ),
    Script(
        "dlvm.batches(iter([1.0, 2.0, 3.0]), 2, epochs=2)",
        r"(dlvm\.batches\(rows), \.\.\.\), not",
        "rows = lambda: iter([1.0, 2.0, 3.0])\nlen(list({0}, 2, epochs=2)))",
        "4",
    ),
    Script(
        "dlvm.batches(iter([X]), 2, lengths=[3], buckets=(4,))",
        "such as (lengths=len)",
        "len(next(iter(dlvm.batches(iter([X]), 2, {0}, buckets=(4,))))[0])",
        "4",
    ),
    Script(
        "next(iter(dlvm.batches(iter([X, X[:2]]), 2)))",
        "or (collate=),",
        "next(iter(dlvm.batches(iter([X, X[:2]]), 2, {0}len)))",
        "2",
    ),
)

FILES = (
    Script(
        "tree = {'a': X}\ndlvm.save(tree, 'a.safetensors')",
        "write (.*)",
        "import tempfile\npath, tree = tempfile.mkdtemp() + '/a', {'a': X}\n"
        "{0}\ndlvm.load(path)['a']",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, like={{'a': np.ones(3, np.float32)}})",
        r"(dlvm\.load\(path\))",
        f"{SAVED}{{0}}['a'].astype(np.float32)",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, like={{'b': X}})",
        r"(dlvm\.load\(path\))",
        f"{SAVED}dlvm.load(path, like={{0}})['a']",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, like={{}})",
        r"(dlvm\.load\(path\))",
        f"{SAVED}{{0}}['a']",
        "X",
    ),
)

PARTS = (
    Script(
        f"{SAVED}dlvm.load(path, names=[3])",
        r'such as names=\["(.*)"\]',
        "import tempfile\npath = tempfile.mkdtemp() + '/a'\n"
        "dlvm.save(path, {'layers': [{'weight': X}]})\n"
        "dlvm.load(path, names=['{0}'])['layers.0.weight']",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, strict=False)",
        r"(dlvm\.load\(.*\))",
        f"{SAVED}tree = {{'a': X, 'b': 1}}\n{{0}}['a']",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, names=['b'])",
        r"(dlvm\.load\(path\))",
        f"{SAVED}dlvm.load(path, names=list({{0}}))['a']",
        "X",
    ),
    Script(
        f"{SAVED}dlvm.load(path, names=['a'], like={{'a': X}})",
        "(strict=False)",
        f"{SAVED}dlvm.load(path, like={{'a': X, 'b': 2}}, {{0}})['a']",
        "X",
    ),
)

EXPRESSIONS = (
    Script(
        "dlvm.from_sympy('x + 1', [])",
        r"such as (sympy\.sin\(x\)),",
        "import sympy\nx = sympy.Symbol('x')\ndlvm.from_sympy({0}, x)(X)",
        "np.sin(X)",
    ),
    Script(
        "import sympy\ndlvm.from_sympy(sympy.Symbol('x'), 'x')",
        r"such as (sympy\.symbols\('x y'\))",
        "import sympy\nx, y = {0}\ndlvm.from_sympy(x + y, [x, y])(X, 1.0)",
        "X + 1.0",
    ),
)

TREES = (
    Script(
        "dlvm.tree.at(lambda t: t[0], [1, 2])",
        r"(dlvm\.tree\.at.*)",
        "where, tree, new = lambda t: t[0], [1, 2], 3\n{0}",
        "[3, 2]",
    ),
    Script(
        "vector, back = dlvm.tree.ravel((X,))\nvector = vector.astype(np.float32)\nback(vector)",
        "vector: (.*)",
        "vector, back = dlvm.tree.ravel((X,))\nback({0})[0]",
        "X",
    ),
    Script(
        "dlvm.tree.reduce(np.add, [])",
        r"(dlvm\.tree\.reduce.*)",
        "f, tree = np.add, []\n{0}",
        "0",
    ),
    Script(
        "dlvm.associative_scan(lambda a, b: a + b > 4, X)",
        "returns: (.*)",
        "def f(a, b):\n    result = a + b > 4\n    return {0}\ndlvm.associative_scan(f, X)",
        "[3.0, 0.0, 0.0]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.associative_scan(dlvm.add, x), dynamic=True)(X)",
        r"write (dlvm\.scan)",
        "dlvm.function(lambda x: {0}(lambda c, a: (c + a, c + a), 0.0, x)[1], dynamic=True)(X)",
        "np.cumsum(X)",
    ),
)
