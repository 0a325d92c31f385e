"""Cases of sizes: both sides have one normal form in a case, which holds the present values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.ir import F32, TensorType
from dlvm.ir.sizes.cases import Case, where_at_least, where_equal
from dlvm.ir.sizes.dims import Dim, at_least, evaluate, floordiv, maximum, minimum, mod, symbol
from dlvm.ir.unify import unify

H, W, K, Q = map(symbol, ("h", "w", "k", "q"))
EQUATIONS: list[tuple[Dim, Dim, dict[str, int], dict[str, str]]] = [
    (2 * floordiv(H, 2), H, {"h": 40}, {"h": "2*h_1"}),
    (2 * (floordiv(H - 1, 2) + 1), H, {"h": 40}, {"h": "2*h_1"}),
    (floordiv(H, 2), maximum(0, 2 * floordiv(floordiv(H, 2), 2) - 1) + 1, {"h": 41}, {}),
    (H * W, 4 * floordiv(H, 2) * floordiv(W, 2), {"h": 4, "w": 6}, {"h": "2*h_1", "w": "2*w_1"}),
    (minimum(16, H), H, {"h": 7}, {"h": "min(16,h_1)"}),
    (minimum(16, H), H, {"h": 16}, {"h": "min(16,h_1)"}),
    (minimum(16, H), 16, {"h": 17}, {"h": "h_1+16"}),
    (K + Q, H + Q, {"k": 3, "q": 5, "h": 3}, {"h": "k"}),
    (K, 7, {"k": 7}, {"k": "7"}),
    (floordiv(H, 512), 1, {"h": 700, "w": 3}, {"h": "700", "w": "w"}),
    (W * (floordiv(H - 33, 48) + 1), W, {"h": 48, "w": 5}, {"h": "48", "w": "w"}),
    (H + mod(3 * mod(H, 4), 4), 4 * floordiv(H + mod(3 * mod(H, 4), 4), 4), {"h": 9}, {}),
]


@pytest.mark.parametrize(("a", "b", "values", "expected"), EQUATIONS)
def test_an_equation_that_holds_now_holds_in_the_whole_case(
    a: Dim, b: Dim, values: dict[str, int], expected: dict[str, str]
):
    case = where_equal(Case.of(values), a, b)
    assert case is not None
    assert case.substituted(a) == case.substituted(b)
    assert {n: case.now(d) for n, d in case.sizes.items()} == values
    assert {n: str(d) for n, d in case.sizes.items() if n in expected} == expected


def test_an_equation_that_does_not_hold_now_has_no_case():
    assert where_equal(Case.of({"h": 41}), 2 * floordiv(H, 2), H) is None
    assert where_at_least(Case.of({"h": 9}), H, 10) is None


def test_a_factor_that_is_none_now_says_nothing_of_the_others():
    assert where_equal(Case.of({"w": 0, "k": 3, "q": 4}), W * K, W * Q) is None


def test_an_inequality_bounds_a_symbol():
    assert str(where_at_least(Case.of({"h": 40}), H, 10).sizes["h"]) == "h_1+10"  # pyright: ignore[reportOptionalMemberAccess]
    found = where_at_least(Case.of({"k": 7, "q": 3}), K, Q)
    assert found is not None and str(found.sizes["k"]) == "k_1+q"
    found = where_at_least(Case.of({"h": 7}), 16, H)
    assert found is not None and str(found.sizes["h"]) == "min(16,h_1)"


numbers = st.integers(-3, 6)


@st.composite
def sizes(draw: st.DrawFn) -> Dim:
    d = draw(st.integers(1, 3)) * H + draw(st.integers(0, 2)) * W + draw(numbers)
    match draw(st.integers(0, 4)):
        case 0:
            return floordiv(d, draw(st.integers(2, 5)))
        case 1:
            return maximum(0, d)
        case 2:
            return minimum(draw(st.integers(0, 9)), d)
        case 3:
            return mod(d, draw(st.integers(2, 5))) + H
        case _:
            return d


@given(sizes(), sizes(), st.integers(0, 12), st.integers(0, 12), st.integers(0, 5))
def test_a_case_is_right_for_all_values_of_its_symbols(a: Dim, b: Dim, h: int, w: int, other: int):
    now = {"h": h, "w": w}
    b = b + evaluate(a, now) - evaluate(b, now)
    for case in (where_equal(Case.of(now), a, b), where_at_least(Case.of(now), a, b)):
        if case is None:
            continue
        assert {n: case.now(d) for n, d in case.sizes.items()} == now
        moved = {n: v + other for n, v in case.values.items()}
        there = {n: evaluate(d, moved) for n, d in case.sizes.items()}
        assert min(there.values(), default=0) >= 0
        assert evaluate(a, there) >= evaluate(b, there)
    if (case := where_equal(Case.of(now), a, b)) is not None:
        assert case.substituted(a) == case.substituted(b)
    if (case := where_at_least(Case.of(now), a, b)) is not None:
        assert at_least(case.substituted(a), case.substituted(b))


@pytest.mark.parametrize(("size", "expected"), [(0, 0), (7, 7), (16, 16)])
def test_a_call_tells_a_symbol_that_is_clamped(size: int, expected: int):
    pattern = TensorType(F32, (minimum(16, symbol("t")),))
    assert unify([pattern], [TensorType(F32, (size,))]) == {"t": expected}


def test_a_size_beyond_the_clamp_is_refused():
    pattern = TensorType(F32, (minimum(16, symbol("t")),))
    with pytest.raises(Exception, match=r"must be min\(16,t\), found 17"):
        unify([pattern], [TensorType(F32, (17,))])


def test_a_minimum_waits_for_an_equation_that_says_more():
    t = symbol("t")
    patterns = [TensorType(F32, (minimum(2, t),)), TensorType(F32, (t,))]
    given = [TensorType(F32, (2,)), TensorType(F32, (5,))]
    assert unify(patterns, given) == {"t": 5}
