"""Remedies of meshes and annotations, each with a script that is refused and what mends it."""

from __future__ import annotations

from .typing_in import Script

MESH = "mesh = dlvm.mesh({'data': 2}, simulate=2)\n"
TWO = f"{MESH}other = dlvm.mesh({{'rows': 2}}, simulate=2)\n"
STAGED = "f = dlvm.function(lambda x: dlvm.shard(x, 'data', None).sum(){})\nf(M)"

MESHES = (
    Script(
        "dlvm.mesh({'data': 2, 'model': 2}).size",
        "(simulate=4) makes",
        "dlvm.mesh({'data': 2, 'model': 2}, {0}).size",
        "4",
    ),
    Script("dlvm.mesh(2)", "write (.*)", "{0}.size", "8"),
    Script("dlvm.mesh({})", "write (.*)", "{0}.size", "1"),
    Script(
        "dlvm.function(mesh='data')(lambda x: x.sum())(X)",
        r"make one: (dlvm\.mesh.*)",
        "dlvm.function(mesh={0})(lambda x: x.sum())(X)",
        "X.sum()",
    ),
    Script(
        "dlvm.shard(M, 'data', None, mesh=2)",
        r"make one: (dlvm\.mesh.*)",
        "dlvm.shard(M, 'data', None, mesh={0}).whole()",
        "M",
    ),
    Script(
        f"{MESH}dlvm.function(mesh=mesh, target='cuda:0:sm_90')(lambda x: x.sum())(X)",
        "leave out (target)= or",
        f"{MESH}dlvm.function(mesh=mesh)(lambda x: x.sum())(X)",
        "X.sum()",
    ),
)
ANNOTATIONS = (
    Script(
        f"{MESH}dlvm.shard(M, 'data')",
        r"end with (\.\.\.) if",
        f"{MESH}dlvm.shard(M, 'data', {{0}}).whole()",
        "M",
    ),
    Script(
        f"{MESH}dlvm.shard(M, 2, None)",
        r'dlvm\.shard\(x, ("data", None)\)',
        f"{MESH}dlvm.shard(M, {{0}}).whole()",
        "M",
    ),
    Script(
        f"{MESH}dlvm.shard([M], 'data', None)",
        r"by a function: dlvm\.shard\(tree, (.*)\)$",
        f"{MESH}dlvm.shard([M], {{0}})[0].whole()",
        "M",
    ),
    Script(
        MESH + STAGED.format(""),
        r"write @dlvm\.function\((.*)\) above",
        MESH + STAGED.format(", {0}"),
        "M.sum()",
    ),
    Script(
        TWO + STAGED.format(", mesh=mesh").replace("None)", "None, mesh=other)"),
        "leave (mesh=) out",
        MESH + STAGED.format(", {0}mesh"),
        "M.sum()",
    ),
    Script(
        f"{MESH}f = dlvm.function(mesh=mesh)(lambda x: x + 1)\n"
        "dlvm.function(lambda x: f(x) * 2)(X)",
        r"the same mesh: @dlvm\.function\((.*)\)",
        f"{MESH}f = dlvm.function(mesh=mesh)(lambda x: x + 1)\n"
        "dlvm.function(lambda x: f(x) * 2, {0})(X)",
        "(X + 1) * 2",
    ),
)
ARRAYS = (
    Script(
        f"{MESH}x = dlvm.shard(M, 'data', None)\ndlvm.function(lambda x: x.sum())(x)",
        r"pass (x\.whole\(\)), or",
        f"{MESH}x = dlvm.shard(M, 'data', None)\ndlvm.function(lambda x: x.sum())({{0}})",
        "M.sum()",
    ),
    Script(
        f"{TWO}x = dlvm.shard(M, 'data', None, mesh=mesh)\n"
        "dlvm.function(lambda x: x.sum(), mesh=other)(x)",
        r"pass (x\.whole\(\)), or",
        f"{TWO}x = dlvm.shard(M, 'data', None, mesh=mesh)\n"
        "dlvm.function(lambda x: x.sum(), mesh=other)({0})",
        "M.sum()",
    ),
    Script(
        f"{MESH}dlvm.function(lambda x: x.sum()).trace(dlvm.spec('f64[2@data,3]'))",
        r"write @dlvm\.function\((.*)\) above",
        f"{MESH}len(dlvm.function(lambda x: x.sum(), {{0}}).trace("
        "dlvm.spec('f64[2@data,3]')).functions)",
        "1",
    ),
)
DATA = (
    Script(
        "len(dlvm.batches(X, 2, mesh='data'))",
        r"make one: (dlvm\.mesh.*)",
        "len(dlvm.batches(X, 2, mesh={0}))",
        "2",
    ),
    Script(
        "len(dlvm.batches(X, 2, axis='data'))",
        "give (mesh=) as well",
        f"{MESH}len(dlvm.batches(X, 2, axis='data', {{0}}mesh))",
        "2",
    ),
    Script(
        f"{MESH}len(dlvm.batches(X, 2, mesh=mesh, axis=0))",
        "leave axis= out",
        f"{MESH}len(dlvm.batches(X, 2, mesh=mesh))",
        "2",
    ),
)
RUNS = "import tempfile\nruns = dlvm.states(tempfile.mkdtemp())\n"
SHARED = f"{RUNS}{MESH}tree = [dlvm.shard(M, 'data', None)]\n"
STATES = (
    Script(
        f"{SHARED}dlvm.save(tempfile.mkdtemp() + '/a', tree)",
        r"keep it by (dlvm\.states\(folder\)\.save\(step, tree\)), or",
        f"{SHARED}folder, step = tempfile.mkdtemp(), 3\n{{0}}\n"
        "dlvm.states(folder).restore([M])[1][0]",
        "M",
    ),
    Script(
        f"{SHARED}dlvm.save(tempfile.mkdtemp() + '/a', [M])\n"
        "dlvm.save(tempfile.mkdtemp() + '/b', tree)",
        r"or save (tree\[0\]\.whole\(\))",
        f"{SHARED}path = tempfile.mkdtemp() + '/a'\ndlvm.save(path, {{0}})\n"
        "dlvm.load(path)['value']",
        "M",
    ),
    Script(
        f"{SHARED}dlvm.save(tempfile.mkdtemp() + '/a', [M])\n"
        "path = tempfile.mkdtemp() + '/b'\ndlvm.save(path, [M])\ndlvm.load(path, like=tree)",
        r"restore it by dlvm\.states\(folder\)(\.restore\(like\)), or",
        f"{SHARED}like = tree\nruns.save(3, [M])\nruns{{0}}[1][0].whole()",
        "M",
    ),
    Script(
        f"{RUNS}runs.save({{'a': X}}, 3)",
        "write (.*)",
        f"{RUNS}step, tree = 3, {{'a': X}}\n{{0}}\nruns.restore(tree)[1]['a']",
        "X",
    ),
    Script(
        f"{RUNS}runs.save(12, [X])\nruns.restore([X], step='12')",
        "write (.*)",
        f"{RUNS}like = [X * 0]\nruns.save(12, [X])\n{{0}}[1][0]",
        "X",
    ),
    Script(
        f"{RUNS}runs.save(12, [X])\nruns.restore([X], step=3)",
        r"give a step of (runs\.all_steps\(\))",
        f"{RUNS}runs.save(12, [X])\nruns.restore([X], step={{0}}[0])[1][0]",
        "X",
    ),
    Script(
        "len(dlvm.states('run', max_to_keep=0).all_steps())",
        "give (max_to_keep=None) to",
        f"{RUNS}len(dlvm.states(tempfile.mkdtemp(), {{0}}).all_steps())",
        "0",
    ),
    Script(
        "dlvm.states({'a': X})",
        "write (.*)",
        "import tempfile\nfolder = tempfile.mkdtemp()\nlen({0}.all_steps())",
        "0",
    ),
    Script(
        f"{RUNS}runs.save(3, [X])\nruns.save(4, [X])\n"
        "path = runs.folder / 'state-4' / 'index.json'\npath.write_text('')\nruns.restore([X])",
        r"an earlier state: (runs\.restore\(like, step=n\)), for an n of",
        f"{RUNS}like = [X * 0]\nruns.save(3, [X])\nn = runs.all_steps()[0]\n{{0}}[1][0]",
        "X",
    ),
    Script(
        f"{RUNS}{MESH}runs.save(3, [M])\nruns.restore([dlvm.spec('f64[2@data,3]')])",
        r"give an array that (dlvm\.shard) has cut, or",
        f"{RUNS}{MESH}runs.save(3, [M])\nruns.restore([{{0}}(M, 'data', None)])[1][0].whole()",
        "M",
    ),
    Script(
        f"{RUNS}runs.restore([X], mesh='data')",
        r"make one: (dlvm\.mesh.*)",
        f"{RUNS}runs.restore([X], mesh={{0}})[1][0]",
        "X",
    ),
)
PARTS = "from dlvm.ir.sharding import mesh, ranks\nfrom dlvm.ir.sharding.mesh import Mesh\n"
INSIDE = (
    Script(
        "mesh = dlvm.mesh({'data': 2, 'model': 2}, simulate=4, pieces={'data': 4})\n"
        "dlvm.shard(M, ('data', 'model'), None).whole()",
        "or leave (pieces=) out",
        "mesh = dlvm.mesh({'data': 2, 'model': 2}, simulate=4)\n"
        "dlvm.shard(M, ('data', 'model'), None).whole()",
        "M",
    ),
    Script(
        f"{PARTS}Mesh.named('data').size", "write (.*)", f"{PARTS}Mesh.named('{{0}}').size", "8"
    ),
    Script(
        f"{PARTS}mesh.current().size",
        r"mesh\.(on\(.*\))",
        f"{PARTS}with mesh.{{0}}:\n    size = mesh.current().size\nsize",
        "2",
    ),
    Script(
        f"{PARTS}mesh = Mesh.named('data=2')\nranks.index(('data',))",
        r"dlvm\.ir\.sharding\.(ranks.*)",
        f"{PARTS}mesh = Mesh.named('data=2')\n{{0}}(lambda rank: ranks.index(('data',)))",
        "[0, 1]",
    ),
)
"""What passes and ranks say."""
