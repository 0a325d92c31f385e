"""The algebra of sizes, held against Python's integers and against sympy."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from dlvm.base.errors import ShapeError
from dlvm.ir.sizes import dims, equations, order
from dlvm.ir.text.line import Line, parse_dim

NAMES = ("A", "B", "C")
POINTS = [dict(zip(NAMES, p, strict=True)) for p in itertools.product((0, 1, 2, 7), repeat=3)]
MANY = settings(max_examples=6 * settings().max_examples)


@dataclass(frozen=True)
class Tree:
    """An expression as it was written, before any algebra."""

    head: str
    parts: tuple[Tree, ...] = ()
    leaf: int | str = 0

    def __str__(self) -> str:
        return f"{self.head}({', '.join(map(str, self.parts))})" if self.parts else str(self.leaf)


def leaves() -> st.SearchStrategy[Tree]:
    return st.sampled_from((*NAMES, 0, 1, 2, 3, -1, -4, 6)).map(lambda v: Tree("leaf", (), v))


def trees(heads: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    def grow(inner: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        return st.builds(lambda h, a, b: Tree(h, (a, b)), st.sampled_from(heads), inner, inner)

    return st.recursive(leaves(), grow, max_leaves=8)


POLYNOMIALS = trees(("add", "sub", "mul"))
ANY = trees(("add", "sub", "mul", "floordiv", "mod", "min", "max"))
BUILD = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": dims.floordiv,
    "mod": dims.mod,
    "min": dims.minimum,
    "max": dims.maximum,
}


def built(t: Tree) -> dims.Dim:
    if t.parts:
        return BUILD[t.head](*map(built, t.parts))
    return dims.symbol(t.leaf) if isinstance(t.leaf, str) else t.leaf


def value(t: Tree, at: dict[str, int]) -> int | None:
    """What Python's integers say; nothing where something is divided by zero."""
    if not t.parts:
        return at[t.leaf] if isinstance(t.leaf, str) else t.leaf
    a, b = (value(p, at) for p in t.parts)
    if a is None or b is None or (t.head in ("floordiv", "mod") and b == 0):
        return None
    return {**BUILD, **dims.FUNCTIONS}[t.head](a, b)


def algebra(t: Tree) -> sympy.Expr:
    if t.parts:
        return BUILD[t.head](*map(algebra, t.parts))
    return sympy.Symbol(t.leaf) if isinstance(t.leaf, str) else sympy.Integer(t.leaf)


@given(POLYNOMIALS, POLYNOMIALS)
def test_two_polynomials_are_equal_exactly_when_sympy_says_so(a: Tree, b: Tree):
    assert (built(a) == built(b)) == (sympy.expand(algebra(a) - algebra(b)) == 0)
    assert built(Tree("sub", (a, a))) == 0


@given(POLYNOMIALS, POLYNOMIALS, POLYNOMIALS)
def test_the_laws_of_a_ring(x: Tree, y: Tree, z: Tree):
    a, b, c = built(x), built(y), built(z)
    assert a + b == b + a and a * b == b * a
    assert (a + b) + c == a + (b + c) and (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a + 0 == a and a * 1 == a and a * 0 == 0 and a - a == 0


@MANY
@given(ANY)
def test_the_normal_form_has_the_value_of_what_was_written(t: Tree):
    d = built(t)
    for at in POINTS:
        if (expected := value(t, at)) is not None:
            assert dims.evaluate(d, at) == expected


@MANY
@given(ANY)
def test_the_text_of_a_size_reads_back_as_itself(t: Tree):
    line = Line(str(built(t)), 1)
    assert parse_dim(line) == built(t)
    line.end()


@MANY
@given(ANY)
def test_every_value_lies_within_the_bounds(t: Tree):
    low, high = dims.bounds(built(t))
    for at in POINTS:
        if (found := value(t, at)) is not None:
            assert low <= found <= high


@MANY
@given(ANY, st.tuples(st.integers(0, 3), st.integers(0, 4)))
def test_bounds_respect_the_ranges_that_are_given(t: Tree, interval: tuple[int, int]):
    start, length = interval
    low, high = dims.bounds(built(t), {"A": (start, start + length)})
    for at in POINTS:
        found = value(t, at)
        if start <= at["A"] <= start + length and found is not None:
            assert low <= found <= high


@MANY
@given(ANY, ANY)
def test_at_least_never_claims_what_is_false(x: Tree, y: Tree):
    if dims.at_least(built(x), built(y)):
        for at in POINTS:
            a, b = value(x, at), value(y, at)
            assert a is None or b is None or a >= b


@MANY
@given(ANY)
def test_when_positive_never_shuts_out_a_value(t: Tree):
    ranges = equations.when_positive(built(t))
    for at in POINTS:
        if (found := value(t, at)) is not None and found >= 1:
            assert all(low <= at[name] <= high for name, (low, high) in ranges.items())


A, B = dims.symbol("A"), dims.symbol("B")
HALF = dims.floordiv(A + 1, 2)


@pytest.mark.parametrize(
    ("larger", "smaller"),
    [
        (A, 0),
        (A * B + A, A),
        (A + 1, dims.floordiv(A + 1, 2) * 2),
        (A, dims.minimum(A, B)),
        (dims.maximum(A, B), B),
        (dims.minimum(A, B) + 1, 0),
        (A, dims.floordiv(A, 3)),
        (2 * B, 3 * dims.floordiv(2 * B, 3)),
        (3, dims.mod(A, 4)),
        (HALF + 1, 2 * dims.floordiv(HALF + 1, 2)),
        (dims.floordiv(A - dims.minimum(A, B), 2), 0),
        (1, dims.floordiv(A - 2 * dims.floordiv(A, 2) + 4, 4)),
    ],
)
def test_at_least_shows_what_windows_need(larger: dims.Dim, smaller: dims.Dim):
    assert dims.at_least(larger, smaller)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (dims.floordiv(6 * B + 4, 2), 3 * B + 2),
        (dims.floordiv(6 * B + 5, 2), 3 * B + 2),
        (dims.mod(6 * B + 5, 3), 2),
        (dims.floordiv(A * B, B), A),
        (dims.floordiv(A * A - B * B, A - B), A + B),
        (dims.floordiv(0, A), 0),
        (dims.floordiv(A, 1), A),
        (dims.minimum(A, A + 1), A),
        (dims.maximum(2, 3), 3),
        (dims.minimum(A, B), dims.minimum(B, A)),
        (dims.floordiv(5, 0), 0),
        (dims.floordiv(dims.floordiv(A - 1, 2), 2), dims.floordiv(A - 1, 4)),
        (dims.floordiv(dims.floordiv(A, 2) + 6 * B + 1, 3), dims.floordiv(A + 2, 6) + 2 * B),
        (dims.mod(3 * dims.mod(A, 12) + B + 5, 4), dims.mod(3 * A + B + 1, 4)),
    ],
)
def test_what_has_a_closed_form_takes_it(found: dims.Dim, expected: dims.Dim):
    assert found == expected


@given(st.integers(-3, 3), st.integers(-5, 20), st.integers(0, 30))
def test_solve_finds_the_size_or_says_that_there_is_none(k: int, c: int, size: int):
    solutions = [b for b in range(60) if k * b + c == size]
    found = equations.solve(k * B + c, size, "B")
    assert found == (solutions[0] if k and solutions else None)


def test_solve_works_in_the_symbols_of_the_other_side():
    assert equations.solve(2 * B + 1, 2 * A + 3, "B") == A + 1
    assert equations.solve(2 * B, A, "B") is None
    assert equations.solve(B + 1, A, "B") is None
    assert equations.solve(A * B, 6, "B") is None


def test_a_size_has_no_truth_value_and_is_no_index():
    with pytest.raises(ShapeError, match="no truth value"):
        bool(A - B)
    with pytest.raises(ShapeError, match="known while tracing"):
        range(A)  # type: ignore[arg-type]


def test_evaluate_names_the_symbols_it_lacks():
    with pytest.raises(ShapeError, match=r"A\*B needs a value for B"):
        dims.evaluate(A * B, {"A": 2})


FEW = range(-3, 4)


@pytest.mark.parametrize("outer", [dims.minimum, dims.maximum])
@pytest.mark.parametrize("inner", [dims.minimum, dims.maximum])
def test_nested_extremes_are_those_of_integers(outer, inner):
    for low, cut, more, factor in itertools.product(FEW, FEW, FEW, (1, 2, -1)):
        size = outer(low, inner(factor * A - cut, more) + cut)
        for a in range(12):
            plain = [{dims.minimum: min, dims.maximum: max}[f] for f in (outer, inner)]
            right = plain[0](low, plain[1](factor * a - cut, more) + cut)
            assert dims.evaluate(size, {"A": a}) == right


def test_a_slice_of_a_slice_has_the_size_of_one_slice():
    for a, b, c in itertools.product(range(4), repeat=3):
        once = dims.maximum(A - (a + b + c), 0)
        assert dims.maximum(dims.maximum(dims.maximum(A - a, 0) - b, 0) - c, 0) == once
        assert dims.minimum(dims.minimum(A, a + b), a) == dims.minimum(A, a)


def test_what_lies_between_two_extremes_is_inside():
    for start, end in itertools.product(range(13), repeat=2):
        stop = dims.maximum(A - end, 0)
        size = dims.maximum(stop - start, 0)
        assert dims.at_least(stop - size, 0) and dims.at_least(A - stop, 0)


def test_what_a_size_is_where_it_is_positive():
    n = dims.symbol("N")
    for inner in (n - 3, 2 - n, n * n - 5):
        size = dims.maximum(inner, 0)
        assert equations.where_positive(size) == inner
        assert equations.where_positive(size + 1) == size + 1
    assert equations.where_positive(n) == n and equations.where_positive(4) == 4


def test_a_rest_is_no_greater_than_what_it_is_the_rest_of():
    for n, low in itertools.product(range(1, 7), range(6)):
        few = dims.minimum(A, low)
        rest = dims.mod(few, n)
        assert dims.at_least(few - rest, 0) and dims.at_least(A - dims.mod(A, n), 0)
        assert (rest == few) == (low < n)
        for a in range(12):
            assert dims.evaluate(rest, {"A": a}) == min(a, low) % n
        multiple = dims.minimum(
            A - dims.mod(A, 3), low
        )  # that it is no less than 0 is one step more
        inner = dims.minimum(A - dims.mod(A, 3), dims.mod(multiple, n))
        assert dims.at_least(multiple - inner, 0) and dims.at_least(inner, 0)
    assert not dims.at_least(A - 3 - dims.mod(A - 3, 2), 0)


def test_a_minimum_is_split_though_another_is_made_of_it():
    """The last of a multiple of 3 up to ``min(3, B)`` begins at no less than 0."""
    b = dims.symbol("B")
    least = dims.minimum(3, b)
    part = least - dims.mod(least, 3)
    assert dims.at_least(part, dims.minimum(1, part))
    assert dims.at_least(part, dims.minimum(1, b - dims.mod(least, 3)))
    assert not dims.at_least(part, dims.minimum(2, b))


def test_a_proof_about_many_calls_ends(monkeypatch: pytest.MonkeyPatch):
    """One about a kernel of singular values looked at thousands of sizes for three seconds."""
    asked: list[dims.Dim] = []
    bounds = order.bounds

    def noted(d: dims.Dim, ranges: Any = None) -> dims.Range:
        asked.append(d)
        return bounds(d, ranges)

    monkeypatch.setattr(order, "bounds", noted)
    monkeypatch.setattr(order, "_LONGEST", 50)
    n = dims.symbol("N")
    d = n * n - n  # never negative, which intervals don't show
    for i in range(12):
        d = d + dims.maximum(dims.symbol(f"S{i}"), dims.symbol(f"T{i}"))
    asked.clear()
    assert not dims.at_least(d, 0)
    whole = [x for x in asked if isinstance(x, dims.Expr) and len(x.terms) > 12]
    assert 40 < len(whole) < 60


def test_values_that_refute_a_size_lie_in_the_ranges_of_its_symbols():
    n, m = dims.symbol("N"), dims.symbol("M")
    least = dims.minimum(n, m)
    assert not dims.at_least(least, 3)
    assert dims.at_least(least, 3, {"N": (3, float("inf")), "M": (5, 9)})
    assert not dims.at_least(least, 3, {"N": (3, float("inf")), "M": (2, 9)})


def test_a_factor_of_all_terms_is_left_out_of_a_proof():
    """A triangle of the smaller side of a matrix lies inside of it."""
    n, m = dims.symbol("N"), dims.symbol("M")
    least = dims.minimum(2, n)
    assert dims.at_least(n * least, least * least)
    assert dims.at_least(n * n * m, n * m * dims.minimum(n, 3))
    assert not dims.at_least(least * least, n * least)
    free = {"N": (-3.0, 5.0), "M": (0.0, 5.0)}
    assert not dims.at_least(n * m, n * dims.minimum(m, 1), free), "the factor may be negative"


def test_factors_are_counted_from_their_least_values():
    h, w = dims.symbol("h"), dims.symbol("w")
    a, b = dims.floordiv(h - 1, 2), dims.floordiv(w - 1, 4)
    assert dims.at_least(a * b + a + b + 1, 0)  # (a + 1) * (b + 1), of half an image and a quarter
    assert not dims.at_least(a * b + a + b, 0)  # -1 without rows and columns
    assert dims.at_least((h - 2) * (w - 3), 0, {"h": (2, 9), "w": (3, math.inf)})


@pytest.mark.parametrize("least", [-7, -1, 0, 3])
@pytest.mark.parametrize("by", [1, 2, 5])
def test_a_division_of_what_may_be_negative_has_bounds(least: int, by: int):
    n = dims.symbol("n")
    found = dims.bounds(dims.floordiv(n + least, by), {"n": (0, 40)})
    assert found == (least // by, (40 + least) // by)
    assert dims.bounds(dims.floordiv(n + least, by)) == (least // by, math.inf)
