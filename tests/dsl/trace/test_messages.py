"""What newcomers get wrong first: each mistake is answered in their words, at their line."""

from __future__ import annotations

import re
import traceback
import warnings

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import (
    CallError,
    DTypeError,
    NumberOutOfRange,
    ShapeError,
    TraceError,
    UserError,
)

W = np.ones(3, np.float32)
X = np.ones((4, 3))
CAPTURED = np.ones((2, 2))
LABELS = np.zeros(4, int)


def loss(w, x, y):
    return ((x @ w - y) ** 2).sum()


def plus_one(x):
    return x + 1


def squares(x):
    return (x * x).sum()


def assign_into_captured(x):
    CAPTURED[0, 0] = x[0]
    return x


def assign_into_local(x):
    z = np.zeros(3)
    z[0] = x[0]
    return z


def assign_a_whole(x):
    z = np.zeros(3)
    z[:] = x
    return z


def assign_integers(n):
    z = np.zeros(3, int)
    z[1:] += n[1:]
    return z


def dynamic(what, f=plus_one, *args):
    return dlvm.function(dynamic=what)(f)(*(args or (X,)))


def scan(*args):
    return dlvm.scan(lambda c, x: (c, x), *args)


def pulled(ct):
    return dlvm.vjp(lambda x: {"a": x * 2}, W)[1](ct)


MISTAKES = [
    # operands are called by the operation's words, and the user's names stand in quotes
    (
        lambda: dlvm.grad(loss)(np.ones(4, np.float32), X, np.ones(4)),
        ShapeError,
        (r"left: f64\[4,3\], 'x', an argument of loss", r"right: f32\[4\], 'w', an argument"),
    ),
    # types and shapes as text
    (lambda: dlvm.spec(None), UserError, ("takes a type as text, found None", "help: write")),
    (lambda: dlvm.spec(3), UserError, ("takes a type as text, found 3", "help: write")),
    (lambda: dlvm.spec("f32[B,3"), UserError, (r"'f32\[B,3'", "the closing ] is missing")),
    (lambda: dlvm.spec("float32[3]"), UserError, ("mean f32", r'help: write dlvm.spec\("f32\[3\]')),
    (lambda: dlvm.spec("f32(3)"), UserError, (r"found '\('", "help: write")),
    (lambda: dynamic("B"), UserError, ("dynamic='B': expected a dict", '{"x": "B,784"}')),
    (lambda: dynamic(3), UserError, ("dynamic=3: expected a dict", '{"x": "B,784"}')),
    (lambda: dynamic({"x": 3}), UserError, (r"\{'x': 3\}: expected the shape as text", "help")),
    (lambda: dynamic({"x": ("B", 3)}), UserError, ("expected the shape as text", "help: ")),
    (lambda: dynamic({"z": "B"}), UserError, ("names 'z', which is no argument", "are x")),
    (
        lambda: dynamic({"x_b": "B"}, lambda x: x["a"], {"a": X}),
        UserError,
        ("names 'x_b', which is no argument", "are x_a"),
    ),
    (lambda: dynamic({"x": "B,("}), UserError, (r"\{'x': 'B,\('\}: expected a size", "help: ")),
    (lambda: dynamic({"x": "B,4"}), ShapeError, (r"x: dynamic= says \(B, 4\)", '{"x": "4,3"}')),
    (lambda: dynamic({"x": "B"}), ShapeError, (r"x: dynamic= says \(B,\), found f64\[4,3\]",)),
    # options
    (lambda: dlvm.function(threads="4")(squares), UserError, ("threads='4': expected", "help")),
    (lambda: dlvm.function(3), UserError, (r"dlvm.function takes a function, found 3", "help: ")),
    (lambda: dlvm.grad(3), UserError, (r"dlvm.grad takes a function, found 3", "help: ")),
    # calls
    (lambda: dlvm.function(loss)(W), CallError, ("loss: missing .* 'x'", r"loss\(w, x, y\)")),
    (lambda: dlvm.function(loss)(W, X, X, X), CallError, ("loss: too many", r"loss\(w, x, y\)")),
    (lambda: dlvm.grad(loss)(W, X), CallError, ("loss: missing .* 'y'", r"loss\(w, x, y\)")),
    (
        lambda: dlvm.grad(loss)([0.0, 0.0, 0.0], X, np.ones(4)),
        TraceError,
        ("w is a list of 3", r"help: pass np\.asarray\(w\)"),
    ),
    (
        lambda: dlvm.function(plus_one)([1, 2, 3]),
        TraceError,
        ("x is a list of numbers", r"np\.asarray\(x\)", r"return x \+ 1"),
    ),
    # derivatives
    (lambda: dlvm.jvp(squares, (W, W), (W,)), UserError, ("found 2 and 1", r"\(dx, dy\)")),
    (lambda: dlvm.jvp(squares, (W,), (W, W)), UserError, ("found 1 and 2", r"\(dx, dy\)")),
    (lambda: dlvm.jvp(squares, W, W), UserError, ("found one ndarray", r"\(dx, dy\)")),
    (
        lambda: dlvm.jvp(squares, (W,), (np.ones(1),)),
        ShapeError,
        (r"tangents\[0\] has the shape \(1,\), its primal has \(3,\)", "broadcast_to"),
    ),
    (
        lambda: dlvm.jvp(squares, (W,), ({"a": W},)),
        UserError,
        ("tangent: expected an array, found a dict of 1", "help"),
    ),
    (lambda: pulled(W), UserError, ("cotangent: expected a dict of 1, found an array", "help: ")),
    (
        lambda: pulled({"a": np.ones(4)}),
        ShapeError,
        (r"of type f32\[3\] has type f64\[4\]", "help"),
    ),
    # loops are checked outside a trace as inside
    (lambda: scan(0.0, 3), ShapeError, ("scan: xs has no axis", "help: ")),
    (lambda: scan(0.0, (W, np.ones(4))), ShapeError, (r"xs\[1\] has 4 slices, expected 3", "help")),
    (lambda: scan(0.0, None), UserError, ("nothing to walk along", "help: give xs, or length=")),
    (lambda: scan(0.0, None, "3"), UserError, ("length='3': expected a whole number", "help: ")),
    (
        lambda: dlvm.scan(lambda c, x: (c.sum(), x), W, W),
        ShapeError,
        (r"must give carry the type it has, f32\[3\], found f32", "help: start from f32"),
    ),
    (
        lambda: dlvm.fori_loop(0, 2, lambda i, c: (c, c), W),
        UserError,
        ("carry: expected an array, found a tuple of 2", "help: "),
    ),
    (
        lambda: dlvm.while_loop(lambda c: c.sum() < 9, lambda c: c.astype(np.float64), W),
        ShapeError,
        (r"f32\[3\], found f64\[3\]", "help: start from"),
    ),
    (
        lambda: dlvm.while_loop(lambda c: c < 9, lambda c: c + 1, W),
        ShapeError,
        (r"one truth value, found bool\[3\]", r"dlvm\.any"),
    ),
    # NumPy arrays are not assigned into
    (
        lambda: dlvm.function(assign_into_captured)(W),
        TraceError,
        ("the NumPy array CAPTURED", r"\| CAPTURED\[0, 0\]", r"w = dlvm\.copy\(CAPTURED\)"),
    ),
    (
        lambda: dlvm.function(assign_into_local)(W),
        TraceError,
        ("array z", r"write z = dlvm\.zeros\(3\)"),
    ),
    (
        lambda: dlvm.function(assign_a_whole)(W),
        TraceError,
        ("array z", r"write z = dlvm\.zeros\(3\)"),
    ),
    (
        lambda: dlvm.function(assign_integers)(LABELS),
        TraceError,
        ("change the NumPy array z", r"write z = dlvm\.zeros\(3, int\)"),
    ),
    # elements
    (
        lambda: dlvm.function(plus_one)(np.zeros(3, object)),
        DTypeError,
        ("x has elements of type object", r"help: .* x\.astype\(np\.float64\)"),
    ),
    (
        lambda: dlvm.function(plus_one)(np.zeros(3, complex)),
        DTypeError,
        ("x has elements of type complex128", r"x\.real and x\.imag"),
    ),
    (
        lambda: dlvm.function(plus_one)(np.zeros(3, ">f4")),
        DTypeError,
        ("x has elements of type >f4", r"x\.astype\(x\.dtype\.name\)"),
    ),
    (
        lambda: dlvm.function(lambda p: p["w"])({"w": np.zeros(3, complex)}),
        DTypeError,
        ("p_w has elements of type complex128", "help: "),
    ),
    (lambda: dlvm.function(lambda x: x[1.0])(W), DTypeError, ("found 1.0 of", "help: index with")),
    (
        lambda: dlvm.function(lambda x: np.spacing(x))(W),
        TraceError,
        (r"np\.spacing can't be staged", "help: scale by dlvm.exp2 of a whole number"),
    ),
    # losses
    (
        lambda: dlvm.nn.cross_entropy(X, LABELS.astype(float)),
        DTypeError,
        ("cross_entropy: labels are integer class numbers, found f64", "help: convert"),
    ),
    (
        lambda: dlvm.function(dlvm.nn.cross_entropy)(X, np.zeros(5, int)),
        ShapeError,
        (r"logits \(4, 3\) need labels of shape \(4,\), found \(5,\)", "help: give one"),
    ),
    (
        lambda: dlvm.function(dlvm.nn.cross_entropy)(X, X.astype(int)),
        ShapeError,
        (r"cross_entropy: the logits .* found \(4, 3\)", "one-hot"),
    ),
    (lambda: dlvm.nn.cross_entropy(1.0, LABELS), ShapeError, (r"cross_entropy: .* no axis -1",)),
    # programs compiled for other arguments, numbers too large, axes that are not there
    (
        lambda: dlvm.function(plus_one).compile(W)(X),
        ShapeError,
        (r"x: expected f32\[3\], found f64\[4,3\]", "help: call the staged function itself"),
    ),
    (
        lambda: dlvm.function(plus_one).compile(W)(np.ones(4, np.float32)),
        ShapeError,
        (r"x: axis 0 of f32\[3\] must be 3, found 4", "help: call the staged function itself"),
    ),
    (
        lambda: dlvm.function(plus_one)(2**70),
        NumberOutOfRange,
        ("1180591620717411303424 does not fit in i64", "help: pass it as a float"),
    ),
    (lambda: dlvm.vmap(plus_one)(1.0), ShapeError, ("x is f64, it has no axis 0", "in_axes")),
    (lambda: dlvm.vmap(plus_one, in_axes=None)(W), UserError, ("no argument is batched", "help: ")),
    (lambda: dlvm.grad(squares, wrt=1)(W), UserError, ("no such parameter", "help: ")),
]


def test_there_are_enough_of_them():
    assert len(MISTAKES) >= 50


@pytest.mark.parametrize("mistake, kind, patterns", MISTAKES)
def test_a_mistake_is_explained(mistake, kind, patterns):
    with pytest.raises(kind) as caught:
        mistake()
    text = str(caught.value)
    for pattern in patterns:
        assert re.search(pattern, text), text
    assert isinstance(caught.value, UserError), text
    assert re.search(r"--> test_messages\.py:\d+\n", text), text
    assert "  help: " in text, text
    lines = text.splitlines()
    assert len(lines) <= 12 and "PyTreeSpec" not in text and "dlvm/" not in text
    assert all(len(line) <= 100 for line in lines if line.startswith("   | ")), text


@pytest.mark.parametrize("mistake, kind, patterns", MISTAKES)
def test_few_of_our_own_frames_are_shown(mistake, kind, patterns):
    with pytest.raises(kind) as caught:
        mistake()
    names = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert len([name for name in names if "test_messages" not in name]) <= 2, names


def test_a_long_line_is_cut(tmp_path):
    path = tmp_path / "long.py"
    path.write_text(f"def f(x, y):\n    return x + y{' + x' * 60}\n")
    space = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    with pytest.raises(ShapeError, match=r"\(3,\) and \(4,\)") as caught:
        dlvm.function(space["f"])(W, np.ones(4))
    shown = [line for line in str(caught.value).splitlines() if line.startswith("   | ")]
    assert shown[0].endswith("...") and {len(line) for line in shown} == {100}


def test_a_missing_argument_stays_a_type_error():
    with pytest.raises(TypeError):
        dlvm.function(loss)(W)


def test_frames_of_the_user_are_kept():
    def inner(x):
        return x @ np.ones((7, 2))

    def outer(x):
        return inner(x)

    with pytest.raises(ShapeError) as caught:
        dlvm.function(outer)(W)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names == ["test_frames_of_the_user_are_kept", "__call__", "outer", "inner"]


def test_what_the_user_raises_comes_out_as_it_is():
    def inner(x):
        raise KeyError("mine") from ValueError("why")

    with pytest.raises(KeyError, match="mine") as caught:
        dlvm.function(lambda x: inner(x))(W)
    assert isinstance(caught.value.__cause__, ValueError)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[1:] == ["__call__", "<lambda>", "inner"]


def test_an_index_by_int_is_not_taken_for_a_numpy_array():
    @dlvm.function
    def f(x, n):
        y = x.copy()
        y[int(n)] = 2.0
        return y

    with pytest.raises(TraceError, match="can't become int while"):
        f(W, np.array(1))


def test_a_number_too_large_for_the_type_is_infinite_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isinf(dlvm.function(lambda x: x * 1e40)(W)).all()


def test_unstaged_loops_carry_as_staged_ones():
    def last(init, xs):
        return dlvm.scan(lambda c, x: (c + x, c), init, xs)

    for init in (0, 0.0, np.float32(1)):
        plain, staged = last(init, W), dlvm.function(last)(init, W)
        assert plain[0] == staged[0] and plain[0].dtype == staged[0].dtype
    kept = dlvm.while_loop(lambda c: c < 3.0, lambda c: 5.0, np.float32(1))
    assert kept == 5 and kept.dtype == np.float32


def test_arguments_bound_for_good_leave_dynamic():
    f = dlvm.function(dynamic={"x": "B,3", "w": "3"})(lambda x, w: x @ w)
    assert np.array_equal(f.bind(w=W)(X), X @ W)
