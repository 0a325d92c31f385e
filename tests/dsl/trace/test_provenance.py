"""An error about two sizes names, for each, the line or argument where it first arose.

Each program is wrong on the line marked ``# here``; lines marked ``# makes SIZE`` are where the
error must say that a size was made, ``# has SIZE`` which argument, on the line that defines them.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ShapeError
from tests.mistaken import judge, programs, wrong

X, V = np.ones((3, 4)), np.ones(5)
SIZES = {"a": "A", "b": "B", "c": "C"}
ROWS = {"a": "A,B", "b": "C"}


def sized(dynamic: Any, *args: Any) -> Callable[..., Any]:
    """A wrong program on open sizes, which names what its comments say."""

    def register(fn: Callable[..., Any]) -> Callable[..., Any]:
        return wrong(ShapeError, *_expected(fn), args=args, dynamic=dynamic)(fn)

    return register


def _expected(fn: Callable[..., Any]) -> list[str]:
    lines, start = inspect.getsourcelines(fn)
    file = re.escape((inspect.getsourcefile(fn) or "").rpartition("/")[2])
    found: list[str] = []
    for at, line in enumerate(lines, start):
        for kind, size, name in re.findall(r"# (makes|has) (\S+)(?: of (\w+))?", line):
            made = "made at " if kind == "makes" else rf"axis \d of '{name}', an argument of .*, "
            found.append(rf"(?m)^  {re.escape(size)}: {made}{file}:{at}: ")
    assert len(found) == 2, fn
    return found


@sized(SIZES, V, V, V)
def joined(a: Any, b: Any, c: Any) -> Any:  # has C of c
    both = dlvm.concat([a, b])  # makes A+B
    scaled = dlvm.tanh(both * 2)
    return scaled + c  # here


@sized({"a": "2*N,3", "b": "M"}, np.ones((8, 3)), V)
def inferred(a: Any, b: Any) -> Any:
    flat = a.reshape(-1)  # makes 6*N
    tail = b[1:]  # makes max(0,M-1)
    return flat * tail  # here


@sized({"a": "N", "b": "M"}, np.ones(8), np.ones(8))
def folded_by_reshape(a: Any, b: Any) -> Any:
    pairs = dlvm.concat([a, a]).reshape((-1, 2))
    long = dlvm.stack([b, b, b]).reshape(-1)  # makes 3*M
    wide = dlvm.concat([pairs, pairs])  # makes 2*N
    return dlvm.sin(wide[:, 0]) @ long  # here


@sized(ROWS, X, V)
def in_a_loop(a: Any, b: Any) -> Any:  # has B of a
    start = dlvm.concat([b, b])  # makes 2*C

    def body(carry: Any, row: Any) -> Any:
        return dlvm.tanh(carry) + row, row  # here

    return dlvm.scan(body, start, a)


@sized(ROWS, X, V)
def made_in_a_loop(a: Any, b: Any) -> Any:  # has C of b
    def body(carry: Any, row: Any) -> Any:
        twice = dlvm.concat([row, row])  # makes 2*B
        return carry, twice

    stacked = dlvm.scan(body, 0.0, a)[1]
    return stacked.sum(0) * b  # here


@sized(ROWS, X, V)
def captured_by_a_loop(a: Any, b: Any) -> Any:  # has B of a
    outside = b[::2]  # makes floordiv(C+1,2)
    return dlvm.map(lambda row: row - outside, a)  # here


@sized(ROWS, X, V)
def in_lanes(a: Any, b: Any) -> Any:  # has C of b
    def lane(u: Any, v: Any) -> Any:
        both = dlvm.concat([u, u])  # makes 2*B
        return both / v  # here

    return dlvm.vmap(lane, in_axes=(0, None))(a, b)


@sized(SIZES, V, V, V)
def through_a_call(a: Any, b: Any, c: Any) -> Any:  # has B of b
    @dlvm.function
    def inner(u: Any, v: Any) -> Any:
        return (dlvm.exp(u) * v).sum()  # here

    both = dlvm.concat([a, c, a])  # makes 2*A+C
    return dlvm.grad(inner)(both, b)


@sized(SIZES, V, V, V)
def made_by_a_call(a: Any, b: Any, c: Any) -> Any:  # has C of c
    @dlvm.function
    def inner(u: Any, v: Any) -> Any:
        return dlvm.exp(dlvm.concat([u, v]))  # makes A+B

    return dlvm.vecdot(inner(a, b) * 2, c)  # here


@sized(SIZES, V, V, V)
def between_branches(a: Any, b: Any, c: Any) -> Any:  # has C of c
    return dlvm.cond(  # here
        a.sum() > 0,
        lambda: dlvm.concat([a, b]) * 2,  # makes A+B
        lambda: dlvm.cos(c),
    )


@sized(SIZES, V, V, V)
def carried(a: Any, b: Any, c: Any) -> Any:  # has A of a
    def longer(x: Any) -> Any:
        return dlvm.concat([x, b])  # makes A+B

    return dlvm.while_loop(lambda x: x.sum() < c.sum(), longer, a)  # here


@sized({"a": "A,B", "b": "C,A"}, X, np.ones((2, 3)))
def labelled(a: Any, b: Any) -> Any:  # has C of b
    twice = dlvm.concat([a, a], axis=1)  # makes 2*B
    return dlvm.einsum("ij,jk->ik", twice, b)  # here


@sized({"a": "A,B", "b": "C,A"}, X, np.ones((2, 3)))
def multiplied(a: Any, b: Any) -> Any:  # has B of a
    padded = dlvm.pad(b, ((1, 1), (0, 0)))  # makes C+2
    return a @ padded  # here


@sized(SIZES, V, V, V)
def assigned(a: Any, b: Any, c: Any) -> Any:  # has C of c
    room = dlvm.zeros(a.shape[0] + b.shape[0])  # makes A+B
    room[:] = dlvm.sqrt(c)  # here
    return room


@sized({"a": "A,B", "b": "C"}, X, V)
def stretched_before(a: Any, b: Any) -> Any:  # has B of a
    table = dlvm.sum(a, 0)[:, None] * dlvm.concat([b, b])[None]  # makes 2*C
    return table[0] + table[:, 0]  # here


@sized({"a": "A,B", "b": "C"}, X, V)
def lanes_of_two_sizes(a: Any, b: Any) -> Any:  # has A of a
    twice = dlvm.concat([b, b])  # makes 2*C
    return dlvm.vmap(lambda u, v: u * v)(a, twice)  # here


@sized({"a": "A", "b": "B"}, V, V)
def divided(a: Any, b: Any) -> Any:  # has A of a # has B of b
    return a.reshape((b.shape[0], -1))  # here


@sized({"a": "A", "b": "B"}, V, V)
def of_what_a_rule_keeps(a: Any, b: Any) -> Any:  # has A of a
    @dlvm.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    def forward(x: Any) -> Any:
        return x * 2, dlvm.concat([x, b])  # makes A+B

    f.defvjp(forward, lambda kept, dy: (kept * dy,))  # here
    return dlvm.grad(lambda x: f(x).sum())(a)


@sized({"a": "A", "b": "B"}, V, V)
def of_a_recursion(a: Any, b: Any) -> Any:  # has A of a
    @dlvm.function
    def down(x: Any, y: Any) -> Any:
        return dlvm.cond(x.sum() > 1, lambda: down(x * 0.5, y), lambda: x + y)  # here

    return down(a, dlvm.concat([b, b]))  # makes 2*B


@sized({"a": "A", "b": "B"}, V, V)
def of_a_rule(a: Any, b: Any) -> Any:  # has A of a
    @dlvm.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    def backward(kept: Any, dy: Any) -> Any:  # here
        both = dlvm.concat([dy, b])  # makes A+B
        return (both * 2,)

    f.defvjp(lambda x: (x * 2, None), backward)
    return dlvm.grad(lambda x: f(x).sum())(a)


@pytest.mark.parametrize("program", programs(__name__))
def test_both_lines_are_named(program: Any):
    judge(program)


def test_there_are_programs():
    assert len(programs(__name__)) >= 16


def test_a_call_names_the_axes_and_the_line_of_the_arguments():
    def f(x: Any, y: Any) -> Any:
        return x.sum() + y.sum()

    line = inspect.getsourcelines(f)[1]
    staged = dlvm.function(f, dynamic={"x": "B,4", "y": "2*B"})
    staged(np.ones((2, 4)), np.ones(4))
    with pytest.raises(ShapeError) as caught:
        staged(np.ones((3, 4)), V)  # the call
    text = str(caught.value)
    assert "y: axis 0 of f64[2*B] must be 2*B where B = 3, found 5" in text
    assert "staged(np.ones((3, 4)), V)  # the call" in text
    assert "B = 3: axis 0 of x, f64[B,4]" in text
    assert f"compiled for (x: f64[B,4], y: f64[2*B]), test_provenance.py:{line}: def f(" in text


@pytest.mark.parametrize("interpret", ["0", "1"])
def test_a_size_that_comes_out_negative_is_told_before_anything_runs(
    interpret: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DLVM_INTERPRET", interpret)

    def f(x: Any) -> Any:
        room = dlvm.zeros(x.shape[0] - 3)  # makes it
        return dlvm.concat([x, room]) + 1

    staged = dlvm.function(f, dynamic={"x": "N"})
    right = (*(2.0,) * 5, 1.0, 1.0)
    for _ in range(3):  # by every way into it
        assert np.array_equal(staged(V), right)
    with pytest.raises(ShapeError) as caught:
        staged(np.ones(2))
    text = str(caught.value)
    assert "a size can't be negative: N-3 is -1 where N = 2" in text
    assert "room = dlvm.zeros(x.shape[0] - 3)  # makes it" in text
    assert "compiled for (x: f64[N]), test_provenance.py:" in text
    assert np.array_equal(staged(np.ones(3)), np.full(3, 2.0))
    with pytest.raises(ShapeError, match="N-3 is -1"):
        staged.compile(dlvm.spec("f64[N]"))(np.ones(2))


def test_sizes_that_are_known_need_no_explanation():
    with pytest.raises(ShapeError) as caught:
        dlvm.function(lambda x, y: x + y)(np.ones(3), np.ones(4))
    assert "axis 0 of" not in str(caught.value)
