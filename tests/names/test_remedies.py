"""Remedies are typed in by a machine: the code that an error shows replaces what was refused.

The code is taken from the message, never from the table. The program with the code in it is staged,
and its result is compared with what NumPy gives for the program that was meant.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.dsl.words.remedies import PATTERNS, Pattern

from . import (
    typed_arrays,
    typed_calls,
    typed_files,
    typed_flow,
    typed_layers,
    typed_mesh,
    typed_onnx,
)
from .shown import CODE, remedies
from .typing_in import Script, X, ran, remedy_of, same

SCRIPTS: tuple[Script, ...] = (
    *(*typed_arrays.MAKES, *typed_arrays.PLACES, *typed_arrays.ORDERS, *typed_arrays.DRAWS),
    *(*typed_flow.DERIVATIVES, *typed_flow.BRANCHES, *typed_flow.STATE),
    *(*typed_calls.OPTIONS, *typed_calls.ARGUMENTS),
    *(
        *typed_files.BATCHES,
        *typed_files.STREAMS,
        *typed_files.FILES,
        *typed_files.PARTS,
        *typed_files.TREES,
        *typed_files.EXPRESSIONS,
    ),
    *typed_layers.LAYERS,
    *(
        *typed_mesh.MESHES,
        *typed_mesh.ANNOTATIONS,
        *typed_mesh.ARRAYS,
        *typed_mesh.DATA,
        *typed_mesh.STATES,
        *typed_mesh.INSIDE,
    ),
    *typed_onnx.MODELS,
)
Y = np.array([10.0, 20.0, 30.0])
SEEN = {
    "np": np,
    "math": math,
    "dlvm": dlvm,
    "functools": functools,
    "Y": Y,
    "f": lambda a, b: a + b,
    "g": np.random.default_rng(0),
}


@dataclass(frozen=True)
class Typed:
    """A wrong body, how the code of its message is put into a right one, and NumPy's answer.

    ``body`` is the text of a function's body of the parameters ``x`` and ``i``. In ``right``
    ``{code}`` is the code that the message shows, after ``write``, ``pass`` or ``call``.
    """

    body: str
    right: str
    answer: Any
    args: tuple[Any, ...] = (X, np.array(1))


TYPED = (
    Typed("return not x[1]", "return {code}", True),
    Typed("return not (x[0] > 5)", "return {code}", True),
    Typed("return 1.0 if not x[1] else 2.0", "return {code}", 1.0),
    Typed("return Y[i]", "return {code}", 20.0),
    Typed("return float(x[0])", "return {code}", 3.0),
    Typed("return int(x[0])", "return {code}", 3),
    Typed("return max(x[0], x[2])", "return {code}", 3.0),
    Typed("return x.item()", "return {code}", X),
    Typed("return x.unsqueeze(0)", "return {code}(x, 0)", X[None]),
    Typed("return dlvm.unsqueeze(x, 0)", "return {code}(x, 0)", X[None]),
    Typed("return x.sum(dim=0)", "return x.sum({code}0)", 5.0),
    Typed("return dlvm.sum(x, dim=0)", "return dlvm.sum(x, {code}0)", 5.0),
    Typed(
        "tree = [x, x]\n    return dlvm.tree_reduce(f, tree)",
        "tree = [x, x]\n    return {code}(f, tree)",
        X + X,
    ),
    Typed(
        "v = 5\n    x.at[i] = v\n    return x",
        "v = 5\n    {code}\n    return x",
        np.array([3.0, 5, 2]),
    ),
    Typed("return dlvm.concatenate([x, x])", "return {code}([x, x])", np.concatenate([X, X])),
    Typed("return np.array([x, x])", "a = b = x\n    return {code}", np.stack([X, X])),
    Typed(
        "dlvm.default_dtype('f16')\n    return x",
        "with {code}:\n        return x + dlvm.zeros(3)",
        X,
    ),
    Typed("return np.nancumsum(x)", "return {code}", np.cumsum(X)),
    Typed("return np.add.accumulate(x)", "return {code}", np.cumsum(X)),
    Typed("return np.maximum.reduce(x)", "return {code}", 3.0),
    Typed("return dlvm.arange(0.0, dlvm.inf)", "return {code}", np.arange(0.0, 1.0, 0.1)),
    Typed("return dlvm.linalg.matrix_norm(x)", "return {code}(x)", np.linalg.norm(X)),
    Typed(
        "x = dlvm.diag(x)\n    return dlvm.linalg.spectral(x, dlvm.exp)",
        "x = dlvm.diag(x)\n    return {code}",
        np.diag(np.exp(X)),
    ),
    Typed("return dlvm.bincount(x)", "return dlvm.bincount({code}, length=4)", [1, 0, 1, 1]),
    Typed("return dlvm.split(x, 2)", "return {code}(x, 2)[0]", X[:2]),
    *(
        Typed(
            f"return dlvm.nn.{call}, {wrong})",
            f"return dlvm.nn.{call}, {{code}})",
            X[None, :, None],
        )
        for call in ("max_pool(x[None, :, None], 1", "conv(x[None, :, None], dlvm.ones((1, 1, 1))")
        for wrong in ("padding='SOME'", "padding=-2", "layout='NCHW'")
    ),
    Typed(
        "return dlvm.nn.conv(x[None, :, None], dlvm.ones((1, 1, 1)), groups=0)",
        "return dlvm.nn.conv(x[None, :, None], dlvm.ones((1, 1, 1)), {code})",
        X[None, :, None],
    ),
    Typed(
        "x = x[:, None]\n    return dlvm.nn.avg_pool(x, 1)",
        "x = x[:, None]\n    return dlvm.nn.avg_pool({code}, 1)",
        X[None, :, None],
    ),
    Typed("return x * x.size(0)", "return x * {code}", X * 3),
    Typed("return (x + 1).size()", "return list({code})", [3]),
    Typed("return x.ndim()", "return {code}", 1),
    Typed("return int(x[0] + 1)", "return {code}", 4),
    Typed("return math.pow(x[0] + 1, i)", "return {code}", 4.0),
    Typed("return (x + 1)[x > 1].sum()", "return {code}", 7.0),
    Typed("x *= i + 1\n    return x", "{code}\n    return x", X * 2),
    Typed("return x.astype(int) ** -1", "x = x + 1\n    return {code}", 1 / (X + 1)),
    Typed(
        "m = dlvm.optim.add_decayed_weights(0.5)\n    return m.update(x, m.init(x))[0]",
        "m = dlvm.optim.add_decayed_weights(0.5)\n"
        "    update, grads, state, params = m.update, x, m.init(x), x\n    return {code}[0]",
        1.5 * X,
    ),
    Typed(
        "m = dlvm.optim.sgd(0.5)\n    return m.update(x, None)[0]",
        "m = dlvm.optim.sgd(0.5)\n"
        "    update, grads, state, params = m.update, x, m.init(x), x\n    return {code}[0]",
        -0.5 * X,
    ),
    Typed(
        "m = dlvm.optim.lbfgs()\n    return m.update(x, m.init(x), x)[0]",
        "m, loss_of = dlvm.optim.lbfgs(), lambda p: (p * p).sum()\n"
        "    update, grads, state, params, loss = m.update, 2 * x, m.init(x), x, loss_of(x)\n"
        "    return ({code}[0] * x).sum() < 0",
        True,
    ),
)


WHOLE = (
    ("return x[0] or 4.0", 3.0),
    ("return x[1] or 4.0", 4.0),
    ("return x[1] and 4.0", 0.0),
    ("return not x[1] or x[0] > 5", True),
    ("return x[0] > 0 and x[1] > 0", False),
    ("return 0 < x[0] < 5", True),
    ("return 1.0 if x[0] and x[1] else 2.0", 2.0),
    ("return 1.0 if x[0] or x[1] else 2.0", 1.0),
    ("return [x, x + 1][i]", X + 1),
    ("return (x[0], 7.0)[i]", 7.0),
    ("return [1.0, 2.0][i]", 2.0),
    ("return Y[i, None]", [20.0]),
    ("return Y[[i, 0]]", [20.0, 10.0]),
    ("return np.array(x)", X),
    ("return np.asarray([x[0], 1.0])", [3.0, 1.0]),
    ("return np.array([[x[0], x[1]], [x[1], x[0]]])", [[3.0, 0.0], [0.0, 3.0]]),
    ("return np.r_[x, x]", np.r_[X, X]),
    ("return np.c_[x, x]", np.c_[X, X]),
    ("return np.float32(x[0])", 3.0),
    ("return np.take(Y, i)", 20.0),
    ("return np.cumsum(Y)[i]", 30.0),
    ("return math.fabs(x[0] - 5)", 2.0),
    ("return math.hypot(x[0], x[2])", math.hypot(3, 2)),
    ("return list(map(math.sin, x))", np.sin(X)),
    ("return math.fsum(x)", 5.0),
    ("return max(x)", 3.0),
    ("return max(x[0], x[1], x[2])", 3.0),
    ("return min((x[0], x[2]))", 2.0),
    ("return sorted(x)", np.sort(X)),
    ("return sorted([x[0], x[1]])", [0.0, 3.0]),
    ("return any(x > 1)", True),
    ("return 3.0 in x", True),
    ("return len(x[x > 1])", 2),
    ("return np.sum(x[x > 1])", 5.0),
    ("return x[x > 1].mean()", 2.5),
    ("return x.item(2)", 2.0),
    ("return complex(x[0])", 3.0),
    ("return all(x > 1)", False),
    ("return min(x[0], x[2])", 2.0),
    ("return min(x[0], x[1], x[2])", 0.0),
    ("return x[x < 3].max()", 2.0),
    ("return x[x > 1].min()", 2.0),
    ("return x[x < 3].max(axis=0)", 2.0),
    ("return x[x > 1].min(axis=0)", 2.0),
    ("return np.max(x[x < 3])", 2.0),
    ("return np.min(x[x > 1])", 2.0),
    ("return np.mean(x[x > 1])", 2.5),
    ("return dlvm.sum(x[x > 1])", 5.0),
    ("return x.nbytes()", 24),
    ("return x.itemsize()", 8),
    ("return x[0] if x[1] > 0 else x[2]", 2.0),
)
"""Bodies that are refused whole: the code of the message takes the place of what is returned."""
LINES = (
    ("assert x[0] > 0", X),
    ("assert x[0] > 0, 'no'", X),
    ("assert x[0] > 0, f'no {x[0]}'", X),
    ("if x[0] < 0: raise ValueError('no')", X),
    ("if x[0] > 0: x = x + 1", X + 1),
    ("print('%f' % x[0])", X),
    ("print(f'{x[0]:.2f}')", X),
    ("x[x > 1] += 2", np.where(X > 1, X + 2, X)),
    ("x = x * g.integers(i + 1)", X * 0),
    ("x = x * g.integers(3, i + 4)", X * 3),
)
"""Lines before ``return x`` that are refused: the code of the message takes their place."""
UNTYPED = {
    *("if c: break loop", "while c: ...", "range(n)", "range(a, n)", "range(args)"),
    *("if c: ...", "if c: ... recursion", "a if c else b recursion"),
    *("return a[m]", '"" % a', '"".format(args)', "format(a, v)", 'f""'),
}
"""Patterns whose remedies are words around code, or say what to do after the call."""
STATIC = (
    "np.zeros(i)",
    "np.arange(i)",
    "dlvm.eye(i)",
    "np.sum(x[None], axis=i)",
    "Y[:i]",
    "Y.take(i)",
)
"""What needs a number while it is traced: the message shows how the argument is made static."""


def program(body: str) -> Callable[..., Any]:
    """A function of ``x`` and ``i`` whose text can be read, as the remedies read it."""
    import linecache

    name = f"<typed {hash(body)}>"
    text = f"def program(x, i):\n    {body}\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    found = dict(SEEN)
    exec(compile(text, name, "exec"), found)
    return found["program"]


def code_of(message: str) -> str:
    """The code that a message shows: what follows its verb, up to the words around it."""
    (remedy,) = re.findall(r"help: (.*)", message)
    code = re.sub(r"^(write|pass|call|give finite numbers:|[a-z ]+ first:) (return )?", "", remedy)
    code = re.sub(r"^(.*?), (without|the dlvm).*", r"\1", code)
    code = re.sub(r"^flatten and convert it: ", "", code)
    return re.split(
        r" instead of |, without |, with | for (one array|the order|a batch)| takes | makes ", code
    )[0]


def message(case: Typed) -> str:
    """What the wrong program of a case is told."""
    with pytest.raises(UserError) as caught:
        dlvm.function(program(case.body))(*case.args)
    return str(caught.value)


@pytest.mark.parametrize("case", TYPED, ids=lambda c: c.body.splitlines()[-1].strip())
def test_the_code_of_a_remedy_gives_what_numpy_gives(case: Typed):
    text = message(case)
    right = program(case.right.replace("{code}", code_of(text)))
    found = dlvm.function(right)(*case.args)
    assert np.array_equal(found, case.answer), f"{text}\n{found}"


@pytest.mark.parametrize(("body", "answer"), WHOLE, ids=lambda x: str(x)[:50])
def test_the_code_of_a_remedy_takes_the_place_of_what_is_returned(body: str, answer: Any):
    args = X, np.array(1)
    text = message(Typed(body, "", answer))
    found = dlvm.function(program(f"return {code_of(text)}"))(*args)
    assert np.allclose(found, answer), f"{text}\n{found}"


@pytest.mark.parametrize(("line", "answer"), LINES, ids=lambda x: str(x)[:50])
def test_the_code_of_a_remedy_takes_the_place_of_a_line(line: str, answer: Any):
    args = X, np.array(0)
    remedy = message(Typed(f"{line}\n    return x", "", X, args)).partition("help: write ")[2]
    drawn, _, key = remedy.partition(", with ")
    code = f"{key}\n    x = x * {drawn}" if key else remedy.partition(": it writes")[0]
    found = dlvm.function(program(f"seed = 0\n    {code}\n    return x"))(*args)
    assert np.allclose(found, answer), f"{code}\n{found}"


@pytest.mark.parametrize("code", STATIC)
def test_a_whole_number_that_shapes_need_is_made_static(code: str):
    f = program(f"return {code}")
    with pytest.raises(UserError) as caught:
        dlvm.function(f)(X, 1)
    (option,) = re.findall(r"write dlvm.function\(f, (static=\(.*?\))\)", str(caught.value))
    found = eval(f"dlvm.function(f, {option})(x, 1)", {"dlvm": dlvm, "f": f, "x": X})
    assert np.array_equal(found, f(X, 1))


@pytest.mark.parametrize(
    "body", ["return min(x, key=lambda v: -v)", "return any(v > 1 for v in x)", "return 'abc'[i]"]
)
def test_a_remedy_leaves_nothing_out(body: str):
    """What no pattern can rewrite is told in general: no option or generator is dropped."""
    assert not re.search(r"write dlvm\.(min|any|asarray)\(", message(Typed(body, "", None)))


def test_a_set_is_passed_as_the_array_that_its_message_shows():
    given = {2.0, 1.0}
    with pytest.raises(UserError) as caught:
        dlvm.function(lambda x: x * 2)(given)  # type: ignore[arg-type]
    array = eval(code_of(str(caught.value)), {"np": np, "x": given})
    assert np.array_equal(dlvm.function(lambda x: x * 2)(array), [2.0, 4.0])


@pytest.mark.parametrize("name", ["logsumexp", "softmax", "log_softmax"])
def test_a_function_of_scipy_is_told_by_the_name_of_ours(name: str):
    theirs = getattr(pytest.importorskip("scipy.special"), name)
    with pytest.raises(UserError) as caught:
        dlvm.function(lambda x: theirs(x))(X)
    assert f"scipy's {name} can't be staged" in str(caught.value)
    ours = eval(code_of(str(caught.value)), {"dlvm": dlvm})
    assert np.allclose(dlvm.function(ours)(X), theirs(X), rtol=1e-14)


@pytest.mark.parametrize("name", ["expit", "gammaln", "psi", "erf"])
def test_a_ufunc_of_scipy_is_ours_on_staged_values(name: str):
    theirs = getattr(pytest.importorskip("scipy.special"), name)
    assert np.allclose(dlvm.function(lambda x: theirs(x))(X + 1), theirs(X + 1), rtol=1e-14)


def test_a_function_of_scipy_without_one_of_ours_is_called_outside():
    theirs = pytest.importorskip("scipy.special").multigammaln
    with pytest.raises(
        UserError, match=r"multigammaln can't be staged(?s:.*)help: call it outside"
    ):
        dlvm.function(lambda x: theirs(x, 2))(X + 1)


def test_a_number_of_the_user_that_is_called_keeps_the_error_of_python():
    class Made:
        size = 3

    made = Made()
    with pytest.raises(TypeError, match="not callable") as caught:
        dlvm.function(lambda x: x * made.size(0))(X)  # type: ignore[operator]
    assert not isinstance(caught.value, UserError)


def test_a_staged_number_of_samples_is_made_static_as_its_message_says():
    def f(n: Any) -> Any:
        return dlvm.linspace(0, 1, n)

    with pytest.raises(UserError) as caught:
        dlvm.function(f)(3)
    (option,) = re.findall(r"static=\(.*?\)", str(caught.value))
    found = eval(f"dlvm.function({option})(f)(3)", {"dlvm": dlvm, "f": f})
    assert np.array_equal(found, np.linspace(0, 1, 3))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", SCRIPTS, ids=lambda c: c.wrong.splitlines()[-1][:70])
def test_the_code_of_a_remedy_mends_a_script(case: Script):
    mended = case.mended(remedy_of(case.wrong))
    found, answer = ran(mended), ran(case.answer)
    assert same(found, answer), f"{mended}\n{found}\n{answer}"


def test_each_remedy_with_code_is_typed_in_or_listed():
    told = [m.partition("help: ")[2] for m in map(message, TYPED)]
    told += [remedy_of(case.wrong) for case in SCRIPTS]
    listed = LISTED.read_text("utf8").splitlines()[HEADER:]
    found = sorted({r for r in remedies() if not _is_typed(r, told)})
    unknown = [r for r in found if r not in listed]
    assert not unknown, "type these in, or list them in untyped.txt:\n" + "\n".join(unknown)
    typed = [r for r in listed if r not in found]
    assert not typed, "take these out of untyped.txt:\n" + "\n".join(typed)


def test_each_pattern_of_code_is_typed_in_or_listed():
    told = [m.partition("help: ")[2] for m in map(message, TYPED)]
    told += [message(Typed(body, "", a)).partition("help: ")[2] for body, a in WHOLE]
    told += [message(Typed(f"{x}\n    return x", "", a)).partition("help: ")[2] for x, a in LINES]
    told += [remedy_of(case.wrong) for case in SCRIPTS]
    found = {f"{p.code} {p.within}".strip() for p in PATTERNS if not _is_told(p, told)}
    assert found == UNTYPED


def _is_told(pattern: Pattern, told: list[str]) -> bool:
    exact = ".*".join(map(re.escape, re.split(r"\{\w+(?::\w+)?\}", pattern.remedy)))
    return any(re.match(f"(?:write )?{exact}", text) for text in told)


def _is_typed(remedy: str, told: list[str]) -> bool:
    """Whether messages of the tables have each form of the remedy that shows code.

    The messages have filled in the holes of a form.
    """
    forms = [f for f in remedy.partition(": ")[2].split(" | ") if CODE.search(f)]
    exact = [".+".join(map(re.escape, f.split("{}"))) for f in forms]
    return all(any(re.match(pattern, text) for text in told) for pattern in exact)


LISTED = Path(__file__).with_name("untyped.txt")
HEADER = 4
"""Lines of the list that say what it is."""
