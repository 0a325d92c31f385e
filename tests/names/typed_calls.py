"""Remedies of calls, options and arguments, each with a refused script and what mends it."""

from __future__ import annotations

from .typing_in import Script

TENSOR = """
class Tensor:
    requires_grad, __module__ = True, "torch"
    def detach(self):
        return self
    def numpy(self):
        return X
"""

OPTAX = """
import types
jnp, optax = types.ModuleType("jax.numpy"), types.ModuleType("optax")
optax.jnp = jnp
for module, text in (
    (jnp, "def sin(x):\\n    return x.__jax_array__()"),
    (optax, "def cosine_decay_schedule(rate, steps):\\n    return lambda count: jnp.sin(count)"),
):
    exec(compile(text, f"/site-packages/{module.__name__}.py", "exec"), module.__dict__)
"""

OPTIONS = (
    Script("dlvm._nothing", r"(dir\(dlvm\))", "'sum' in {0}", "True"),
    Script("dlvm.nn.nothing", r"(dir\(dlvm\.nn\)) lists the names", "'relu' in {0}", "True"),
    Script("dlvm.nn._nothing", r"(dir\(dlvm\.nn\)) lists its", "'relu' in {0}", "True"),
    Script(
        "dlvm.function(lambda x: dlvm.sort(x * 2) + x, memory=1)(np.arange(99.0))",
        "raise (memory=)",
        "dlvm.function(lambda x: dlvm.sort(x * 2) + x, {0}10_000)(np.arange(99.0))",
        "3 * np.arange(99.0)",
    ),
    Script(
        "dlvm.function(lambda x: x, memory='5 apples')",
        "write (memory=.*?) [(]",
        "dlvm.function(lambda x: x, {0})(X)",
        "X",
    ),
    Script(
        "dlvm.linalg.svdvals(M, accuracy='best')",
        "give (accuracy='high')",
        "dlvm.linalg.svdvals(M, {0})",
        "np.linalg.svd(M)[1]",
    ),
    Script(
        "dlvm.function(lambda x: x, target='mars')",
        "write (.*)",
        "dlvm.function(lambda x: x, {0})(X)",
        "X",
    ),
    Script(
        "dlvm.aot(lambda x: x * 2, X, growing=-1)",
        "write (growing=.*)",
        "len(dlvm.aot(lambda x: x * 2, X, {0}).files) >= 4",
        "True",
    ),
    Script(
        "dlvm.export(lambda x: x * 2, X, format='mlir')",
        "write (format=.*)",
        "'stablehlo.multiply' in dlvm.export(lambda x: x * 2, X, {0})",
        "True",
    ),
    Script(
        "dlvm.aot(lambda x: x * 2, X, page=True)",
        "write (target=.*)",
        "'net.html' in dlvm.aot(lambda x: x * 2, X, name='net', page=True, {0}).files",
        "True",
    ),
    Script(
        "f = lambda x: dlvm.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x)\n"
        "dlvm.aot(f, dlvm.spec('f32[3]'), target='webgpu')",
        'write (target="wasm32")',
        "f = lambda x: dlvm.while_loop(lambda v: v.sum() < 100, lambda v: v * 2, x)\n"
        "'net.wasm' in dlvm.aot(f, dlvm.spec('f32[3]'), name='net', {0}).files",
        "True",
    ),
    Script(
        "dlvm.aot(lambda x: x * 2, dlvm.spec('f32[n]'), target='webgpu')",
        "such as (dlvm.spec.*)",
        "'net.webgpu.json' in dlvm.aot(lambda x: x * 2, {0}, target='webgpu', name='net').files",
        "True",
    ),
    Script(
        "dlvm.aot(lambda x: x * 2, X, name='int')",
        "write (name=.*)",
        "dlvm.aot(lambda x: x * 2, X, {0}).description['name']",
        "'net'",
    ),
    Script(
        "f = dlvm.function(lambda x: x * 2, target='aarch64-linux-gnu')\nf(X)",
        "files that run there: (dlvm.aot.*)",
        "f, x = lambda x: x * 2, X\n{0}.description['target']",
        "'aarch64-linux-gnu'",
    ),
    Script(
        "def f(x):\n    grown = lambda v: dlvm.while_loop("
        "lambda v: (v < 9.0).all(), lambda v: v * v + 1.0, v).sum()\n"
        "    return dlvm.grad(grown)(x)\n"
        "dlvm.aot(f, X)",
        "for it: (growing=.*)",
        "def f(x):\n    grown = lambda v: dlvm.while_loop("
        "lambda v: (v < 9.0).all(), lambda v: v * v + 1.0, v).sum()\n"
        "    return dlvm.grad(grown)(x)\n"
        "dlvm.aot(f, X, {0}).description['scratch'] > 1 << 20",
        "True",
    ),
    Script(
        "dlvm.function(lambda x: x, debug=5)",
        "such as (.*)",
        "dlvm.function(lambda x: x, {0})(X)",
        "X",
    ),
    Script(
        "dlvm.function(lambda x: x, target='cuda:1:sm_90:2').compile(X)",
        "write (target='cuda.*')",
        "dlvm.function(lambda x: x, {0}).compile(X).text('ptx').split()[8:10]",
        "['.target', 'sm_90']",
    ),
    Script(
        "dlvm.function(lambda x: x, target='opencl:first').compile(X)",
        "write (target='opencl.*')",
        "'__kernel' in dlvm.function(lambda x: x + 1, {0}).compile(X).text('opencl')",
        "True",
    ),
    Script(
        "dlvm.function(lambda x: x, target='metal')(X)",
        "write (target='[a-z]*')",
        "'@compute' in dlvm.function(lambda x: x + 1, {0}).compile(X > 0).text('wgsl')",
        "True",
    ),
    Script(
        "from dlvm.target import Target\nTarget.cuda('sm_1')",
        "as in target='cuda:(.*)'",
        "from dlvm.target import Target\nTarget.cuda('{0}').cpu",
        "'sm_90a'",
    ),
    Script(
        "from dlvm.cli.naming import sizes_of\nsizes_of(['B'])",
        "write --size (.*)",
        "from dlvm.cli.naming import sizes_of\nsizes_of(['{0}'])['B']",
        "64",
    ),
    Script(
        "from dlvm.cli.naming import arguments_of\narguments_of(['f32['])",
        r"such as (f32\[64,784\]), .* or (a number)",
        "from dlvm.cli.naming import arguments_of\nstr(arguments_of(['{0}']).given[0].type)",
        "'f32[64,784]'",
    ),
    Script(
        "import inspect\nfrom dlvm.testing import strategies\n"
        "kept = sys.modules.get('hypothesis')\nsys.modules['hypothesis'] = None\n"
        "try:\n    exec(inspect.getsource(strategies), {'__name__': 'again'})\n"
        "finally:\n    sys.modules['hypothesis'] = kept\n0",
        r"(dlvm\.testing\.random_program\(seed\))",
        "seed = 3\nlen({0}.run()) > 0",
        "True",
    ),
    Script(
        "from dlvm.ir import Module\nModule([1])",
        r"(dlvm\.parse) makes .* and (dlvm\.trace) of",
        "text = str({1}(lambda x: x + x, X))\nstr({0}(text)) == text",
        "True",
    ),
    Script(
        "dlvm.function(lambda x: x * 2, dynamic={'x': 'N'})(M)",
        "(dynamic=.*) fits",
        "dlvm.function(lambda x: x * 2, {0})(M)",
        "M * 2",
    ),
    Script(
        "dlvm.function(lambda x: x[7] + dlvm.zeros(x.shape[0] - 5), dynamic={'x': 'N'})(X)",
        r"(x\[5:\])",
        "dlvm.function(lambda x: {0}, dynamic={'x': 'N'})(X)",
        "X[5:]",
    ),
    Script(
        "def kept(x):\n    return x * 2\nf = dlvm.function(kept)\nf.explain(X)",
        r"call (kept) with .* write kept(\.explain\(\))",
        "def kept(x):\n    return x * 2\nf = dlvm.function(kept)\ny = f(X)\n"
        "[y, 'kept' in str(f{1})]",
        "[X * 2, True]",
    ),
    Script(
        "dlvm.function(lambda x: x + 1).compile(X).scheduled(3)",
        r"what (\.text\('schedule'\))",
        "c = dlvm.function(lambda x: x + 1).compile(X)\nc.scheduled(c{0})(X)",
        "X + 1",
    ),
    Script(
        "c = dlvm.function(lambda x: x + 1).compile(X)\n"
        "c.scheduled(c.text('schedule').replace('@', '@no_'))",
        r"what (\.text\('schedule'\))",
        "c = dlvm.function(lambda x: x + 1).compile(X)\nc.scheduled(c{0})(X)",
        "X + 1",
    ),
    Script(
        "c = dlvm.function(lambda x: (x + 1).sum()).compile(X)\n"
        "c.scheduled(c.text('schedule') + '  unroll %nothing factor=3\\n')",
        r"what (\.text\('schedule'\))",
        "c = dlvm.function(lambda x: (x + 1).sum()).compile(X)\nc.scheduled(c{0})(X)",
        "X.sum() + 3",
    ),
    Script(
        "dlvm.function(lambda x: x + 1).compile(X).view(X)",
        r"write (\.view\(None, )",
        "dlvm.function(lambda x: x + 1).compile(X){0}X).startswith('<!doctype html>')",
        "True",
    ),
    Script(
        "from dlvm.opt import pipelines\npipelines.insert(len, after='simplify')",
        r"@(dlvm\.passes\.function_pass)",
        "from dlvm.opt import pipelines\n"
        "@{0}\ndef typed_in(fn):\n    return fn\n"
        "pipelines.insert(typed_in, after='simplify')\n"
        "y = dlvm.function(lambda x: x * 3)(X)\npipelines.remove(typed_in)\ny",
        "X * 3",
    ),
    Script(
        "from dlvm.opt import pipelines\n"
        "@dlvm.passes.function_pass\ndef nowhere(fn):\n    return fn\n"
        "try:\n    pipelines.insert(nowhere)\nfinally:\n"
        "    pipelines.insert(nowhere, after='simplify')\n    pipelines.remove(nowhere)\n0",
        r"write (insert\(.*\))",
        "from dlvm.opt.pipelines import insert, remove\n"
        "@dlvm.passes.function_pass\ndef nowhere(fn):\n    return fn\n"
        "{0}\ny = dlvm.function(lambda x: x * 4)(X)\nremove(nowhere)\ny",
        "X * 4",
    ),
    Script(
        "from dlvm.opt.pipelines import insert, remove\n"
        "@dlvm.passes.function_pass\ndef twice(fn):\n    return fn\n"
        "insert(twice, after='simplify')\n"
        "try:\n    insert(twice, after='simplify')\nfinally:\n    remove(twice)\n0",
        r"(remove\(.*\)) first",
        "from dlvm.opt.pipelines import insert, remove\n"
        "@dlvm.passes.function_pass\ndef twice(fn):\n    return fn\n"
        "insert(twice, after='simplify')\n{0}\ndlvm.function(lambda x: x * 5)(X)",
        "X * 5",
    ),
)
"""Options, tools and passes."""

ARGUMENTS = (
    Script(
        "dlvm.function(lambda xs: dlvm.sin(xs))([1.0, 2.0])",
        r"pass (np\.asarray\(xs\))",
        "xs = [1.0, 2.0]\ndlvm.function(lambda xs: dlvm.sin(xs))({0})",
        "np.sin([1.0, 2.0])",
    ),
    Script(
        "dlvm.function(lambda xs: xs * 2.0)([1.0, 2.0])",
        r"pass (np\.asarray\(xs\))",
        "xs = [1.0, 2.0]\ndlvm.function(lambda xs: xs * 2.0)({0})",
        "[2.0, 4.0]",
    ),
    Script(
        "dlvm.function(lambda xs: xs)([[1.0, 2.0], [3.0, 4.0]])",
        r"pass (np\.asarray\(xs\))",
        "xs = [[1.0, 2.0], [3.0, 4.0]]\ndlvm.function(lambda xs: xs)({0})",
        "[[1.0, 2.0], [3.0, 4.0]]",
    ),
    Script(
        "dlvm.function(lambda x: dlvm.sin([x[0] + 1, x[1]]))(X)",
        r"(dlvm\.stack\(\[a, b\]\)) or (dlvm\.concat\(\[a, b\]\))",
        "def f(x):\n    a, b = x, x + 1\n    return dlvm.sin({0}), dlvm.sin({1})\n"
        "dlvm.function(f)(X)",
        "[np.sin([X, X + 1]), np.sin([*X, *(X + 1)])]",
    ),
    Script(
        "dlvm.function(lambda x: x)(np.ma.masked_less(X, 1))",
        r"pass (x\.data) and (~x\.mask), and give (where=)",
        "x = np.ma.masked_less(X, 1)\ndlvm.function(lambda x, kept: x.sum({2}kept))({0}, {1})",
        "np.ma.masked_less(X, 1).sum()",
    ),
    Script(
        "dlvm.function(lambda x: x * x)(M[:, 1:].view(np.matrix))",
        r"pass (np\.asarray\(x\)), and write (@)",
        "x = M[:, 1:].view(np.matrix)\ndlvm.function(lambda x: x {1} x)({0})",
        "M[:, 1:] @ M[:, 1:]",
    ),
    Script(
        "dlvm.function(lambda x: x)({1: object()})",
        r"(static=\('x',\))",
        "dlvm.function(lambda x, y: y * len(x), {0})('ab', X)",
        "X * 2",
    ),
    Script(
        "dlvm.function(lambda x: x * 2)({2.0, 1.0})",
        r"pass (np\.asarray\(sorted\(x\)\))",
        "x = {2.0, 1.0}\ndlvm.function(lambda x: x * 2)({0})",
        "[2.0, 4.0]",
    ),
    Script(
        "dlvm.trace(lambda x: x.sum(), dlvm.spec('f64[A+B]'))",
        r"such as (f32\[A\])",
        "t = dlvm.trace(lambda x, a: x.sum(), dlvm.spec('f64[A+B]'), dlvm.spec('{0}'))\n"
        "'f64[A+B], %a: f32[A]' in str(t)",
        "True",
    ),
    Script(
        "dlvm.function(lambda x: x * 2)(dlvm.spec('f64[3]'))",
        r"in (f\.compile) and (dlvm\.trace)",
        "f = dlvm.function(lambda x: x * 2)\n"
        "[{0}(dlvm.spec('f64[3]'))(X), 'f64[3]' in str({1}(f, dlvm.spec('f64[3]')))]",
        "[X * 2, True]",
    ),
    Script(
        "dlvm.function(lambda x: x.shap)(X)",
        "mean '(.*)'",
        "dlvm.function(lambda x: x.{0})(X)",
        "(3,)",
    ),
    Script("dlvm.function(lambda x: x.qqqq)(X)", r"(dir\(dlvm\))", "'sin' in {0}", "True"),
    Script(
        "dlvm.function(lambda x: x.__complex_steps__())(X)",
        r"(dir\(dlvm\))",
        "'sin' in {0}",
        "True",
    ),
    Script(
        "dlvm.nn.cross_entropy(M, np.eye(3, dtype=int)[:2])",
        r"rows: (dlvm\.argmax\(labels, axis\))",
        "labels, axis = np.eye(3, dtype=int)[:2], -1\ndlvm.nn.cross_entropy(M, {0})",
        "[np.log(np.exp(r).sum()) - r[i] for i, r in enumerate(M)]",
    ),
    Script(
        "dlvm.nn.cross_entropy(M, np.array([0.0, 1.0]))",
        r"with (dlvm\.astype.*)",
        "labels = np.array([0.0, 1.0])\ndlvm.nn.cross_entropy(M, {0})",
        "[np.log(np.exp(r).sum()) - r[i] for i, r in enumerate(M)]",
    ),
    Script(
        f"{OPTAX}\ndlvm.function(lambda n: optax.cosine_decay_schedule(0.5, 10)(n))(5)",
        r"write (dlvm\.optim\.cosine_decay_schedule)",
        "dlvm.function(lambda n: {0}(0.5, 10)(n))(5)",
        "0.25",
    ),
    Script(
        f"{TENSOR}\ndlvm.function(lambda x: x * 2)(Tensor())",
        r"pass (x\.detach.*)",
        f"{TENSOR}\nx = Tensor()\ndlvm.function(lambda x: x * 2)({{0}})",
        "2 * X",
    ),
    Script(
        "dlvm.testing.assert_law(len)",
        r"with @(dlvm\.ir\.rewrite)$",
        "Tanh = dlvm.ops.Tanh\n"
        "law = {0}(Tanh, example=lambda x: Tanh(x), given=('f[N]',))(lambda op: -(-op))\n"
        "[dlvm.testing.assert_law(law), dlvm.ir.RULES[Tanh].pop().name][0]",
        "'only drawn'",
    ),
)
"""Arguments of staged functions and of losses."""
