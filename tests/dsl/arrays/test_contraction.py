"""Sums of products against NumPy's, their order against opt_einsum's best, their form in IR."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import opt_einsum
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dlvm
from dlvm.base.errors import UserError
from dlvm.dsl.words.pairing import pairs


def whole(rng: np.random.Generator, shape: Any) -> np.ndarray:
    """Whole numbers, whose sums of products have no rounding."""
    return rng.integers(-4, 5, shape).astype(float)


@st.composite
def contractions(draw: Any) -> tuple[str, list[tuple[int, ...]]]:
    """Operands with letters from a few, some twice, some under an ellipsis, some stretched."""
    sizes = {c: draw(st.integers(0, 4)) for c in "abcde"}
    dots = draw(st.lists(st.integers(1, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 4))):
        letters = draw(st.lists(st.sampled_from("abcde"), max_size=3))
        under = dots[len(dots) - draw(st.integers(0, len(dots))) :] if draw(st.booleans()) else None
        shape = [
            1 if letters.count(c) == 1 and draw(st.integers(0, 5)) == 0 else sizes[c]
            for c in letters
        ]
        at = draw(st.integers(0, len(letters)))
        middle = ["..."] if under is not None else []
        terms.append("".join([*letters[:at], *middle, *letters[at:]]))
        shapes.append((*shape[:at], *(under or ()), *shape[at:]))
    text = ",".join(terms)
    if draw(st.booleans()):
        known = sorted(set(text) - set(",."))
        result = draw(st.permutations(known))[: draw(st.integers(0, len(known)))]
        at = draw(st.integers(0, len(result)))
        text += "->" + "".join([*result[:at], *(["..."] if "..." in text else []), *result[at:]])
    return text, shapes


@settings(max_examples=120, deadline=None)
@given(contractions(), st.integers(0, 99))
def test_any_sum_of_products_is_numpys(drawn: Any, seed: int):
    text, shapes = drawn
    rng = np.random.default_rng(seed)
    xs = [whole(rng, s) for s in shapes]
    expected = np.einsum(text, *xs)
    found = dlvm.einsum(text, *xs)
    assert found.shape == expected.shape and np.array_equal(found, expected), text


MANY = {
    "product": ("ij,jk->ik", (3, 4), (4, 5)),
    "transposed": ("ji,kj->ki", (4, 3), (5, 4)),
    "batch": ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
    "heads": ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)),
    "mixed": ("...i,...ij,kj->...k", (2, 3), (2, 3, 4), (5, 4)),
    "diagonal": ("iij,jk->ik", (3, 3, 4), (4, 2)),
    "trace": ("ij,ji", (3, 4), (4, 3)),
    "bilinear": ("bi,ijk,bk->bj", (4, 2), (2, 3, 5), (4, 5)),
    "inner axes apart": ("aibj,jci->abc", (2, 3, 2, 4), (4, 2, 3)),
    "elements": ("ij,ij->ij", (3, 4), (3, 4)),
    "stretched": ("ij,ij->i", (3, 1), (3, 4)),
}


@pytest.mark.parametrize("name", MANY)
def test_machine_code_and_gradients_and_batches(name: str, monkeypatch: pytest.MonkeyPatch):
    text, *shapes = MANY[name]
    rng = np.random.default_rng(0)
    xs = [whole(rng, s) for s in shapes]
    expected = np.einsum(text, *xs)
    assert np.array_equal(dlvm.function(lambda *x: np.einsum(text, *x))(*xs), expected)
    monkeypatch.setenv("DLVM_INTERPRET", "1")
    w = whole(rng, expected.shape)
    for i, x in enumerate(xs):  # linear in each operand
        g = dlvm.grad(lambda *x: (dlvm.einsum(text, *x) * w).sum(), wrt=i)(*xs)
        other = [whole(rng, y.shape) if k == i else y for k, y in enumerate(xs)]
        assert (g * other[i]).sum() == (np.einsum(text, *other) * w).sum()
        stack = np.stack([x, other[i], x * 0])
        axes = tuple(0 if k == i else None for k in range(len(xs)))
        batched = dlvm.vmap(lambda *x: dlvm.einsum(text, *x), in_axes=axes)
        found = batched(*(stack if k == i else y for k, y in enumerate(xs)))
        assert np.array_equal(found[1], np.einsum(text, *other)), (name, i)


@pytest.mark.parametrize("name", sorted(set(MANY) - {"stretched"}))
def test_open_sizes(name: str):
    text, *shapes = MANY[name]
    inputs = text.partition("->")[0].split(",")
    letters = [",".join(c for c in part.replace("...", "z").upper()) for part in inputs]

    @dlvm.function(dynamic={f"x{i}": part for i, part in enumerate(letters)})
    def f(x0, x1, x2=None):
        return dlvm.einsum(text, *(x for x in (x0, x1, x2) if x is not None))

    for grown in (0, 1, 2):
        xs = [whole(np.random.default_rng(1), tuple(n + grown for n in s)) for s in shapes]
        assert np.array_equal(f(*xs), np.einsum(text, *xs))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i4", "u1", "?"])
def test_element_types(dtype: str):
    x, y = (np.arange(6).reshape(s).astype(dtype) for s in ((2, 3), (3, 2)))
    found, expected = dlvm.einsum("ij,jk->ik", x, y), np.einsum("ij,jk->ik", x, y)
    assert found.dtype == expected.dtype and np.array_equal(found, expected)


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("n", [0, 1, 33, 5000])
def test_the_product_of_two_vectors_of_halves_is_a_sum_in_f32(kind: Any, n: int):
    """It folds by a tree, like that of wider floats, and is rounded once."""
    rng = np.random.default_rng(n)
    x, y = (rng.standard_normal(n).astype(kind) for _ in range(2))
    dot = dlvm.function(lambda x, y: x @ y).compile(x, y)
    wide_x, wide_y = x.astype(np.float64), y.astype(np.float64)
    exact, eps = wide_x @ wide_y, float(ml_dtypes.finfo(kind).eps)
    bound = eps / 2 * abs(exact) + 1e-6 * (np.abs(wide_x) @ np.abs(wide_y)) + 1e-7
    assert abs(np.float64(dot(x, y)) - exact) <= bound
    assert n < 2 or 'family="product"' not in dot.text("kernels")


def test_lists_of_integers_are_labels_too():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(1, 3, 4)
    for lists in (([0, 1], [..., 1, 2], [2, ...]), ([0, 1], [..., 1, 2])):
        a, b, *out = lists
        expected = np.einsum(x, a, y, b, *out)
        found = dlvm.function(lambda x, y, a=a, b=b, out=out: np.einsum(x, a, y, b, *out))(x, y)
        assert np.array_equal(found, expected)


# -- the order ----------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_order_costs_no_more_than_the_best_of_opt_einsum(data: Any):
    count = data.draw(st.integers(2, 7))
    letters = "abcdefg"
    sizes = {c: data.draw(st.integers(2, 20)) for c in letters}
    terms = [
        frozenset(data.draw(st.lists(st.sampled_from(letters), min_size=1, max_size=3)))
        for _ in range(count)
    ]
    every = sorted(frozenset().union(*terms))
    shared = [c for c in every if sum(c in t for t in terms) > 1]
    output = frozenset(c for c in every if c not in shared or data.draw(st.booleans()))
    order = pairs(terms, output, {c: sizes[c] for c in every})
    text = ",".join("".join(sorted(t)) for t in terms) + "->" + "".join(sorted(output))
    views = [np.broadcast_to(0.0, [sizes[c] for c in sorted(t)]) for t in terms]
    _, best = opt_einsum.contract_path(text, *views, optimize="optimal")
    assert cost_of(order, terms, output, sizes) <= best.opt_cost, text


def cost_of(order: Any, terms: Any, output: Any, sizes: dict[str, int]) -> int:
    """Of an order: for each pair all index values, twice where something is summed."""
    pool, total = dict(enumerate(terms)), 0
    for step, (i, j) in enumerate(order):
        both = pool.pop(i) | pool.pop(j)
        kept = both & output.union(*pool.values())
        total += int(np.prod([sizes[c] for c in both])) * (2 if both - kept else 1)
        pool[len(terms) + step] = kept
    assert len(pool) == 1
    return total


def test_many_operands_are_contracted_greedily():
    rng = np.random.default_rng(0)
    xs = [rng.normal(size=(3, 3)) for _ in range(20)]
    text = ",".join(
        f"{a}{b}" for a, b in zip("abcdefghijklmnopqrst", "bcdefghijklmnopqrstu", strict=True)
    )
    np.testing.assert_allclose(dlvm.einsum(text, *xs), np.linalg.multi_dot(xs), rtol=1e-10)


def test_a_vector_at_the_end_of_a_chain_never_meets_a_product_of_matrices():
    specs = map(dlvm.spec, ("f32[N,N]", "f32[N,N]", "f32[N]"))
    module = dlvm.trace(lambda a, b, v: dlvm.einsum("ij,jk,k->i", a, b, v), *specs)
    products = [op.shape for op in module.main.ops if op.name == "matmul"]
    assert len(products) == 2 and all(1 in shape for shape in map(list, products))


# -- the form -----------------------------------------------------------------------------------


def test_a_product_reads_permuted_operands_where_they_lie():
    """Attention: one kernel, no copy, no gather."""
    module = dlvm.trace(lambda q, k: dlvm.einsum("bqhd,bkhd->bhqk", q, k),
                        dlvm.spec("f32[B,S,4,16]"), dlvm.spec("f32[B,T,4,16]"))  # fmt: skip
    assert [op.name for op in module.main.ops] == ["permute", "permute", "matmul"]
    assert [op.name for op in module.optimize().main.ops] == ["kernel"]


def test_axes_beside_one_another_are_one():
    module = dlvm.trace(lambda x, w: dlvm.einsum("bsd,dhe->bshe", x, w),
                        dlvm.spec("f32[B,S,8]"), dlvm.spec("f32[8,2,4]"))  # fmt: skip
    assert [op.name for op in module.main.ops] == ["reshape", "reshape", "matmul", "reshape"]


# -- what has fewer letters ---------------------------------------------------------------------

SHAPES = {"s": (), "v": (3,), "m": (3, 3), "t": (2, 3, 3), "r": (4, 1, 3, 3)}


@pytest.mark.parametrize("left", SHAPES)
@pytest.mark.parametrize("right", SHAPES)
def test_products_of_every_rank(left: str, right: str):
    rng = np.random.default_rng(0)
    x, y = whole(rng, SHAPES[left]), whole(rng, SHAPES[right])
    for name in ("dot", "inner", "outer", "kron"):
        expected = getattr(np, name)(x, y)
        found = getattr(dlvm, name)(x, y)
        assert found.shape == expected.shape and np.array_equal(found, expected), name
    if x.ndim and y.ndim:
        assert np.array_equal(dlvm.matmul(x, y), x @ y)
        assert np.array_equal(dlvm.vecdot(x, y), np.vecdot(x, y))
        axes = ((-1,), (-2 if y.ndim > 1 else -1,))
        assert np.array_equal(dlvm.tensordot(x, y, axes), np.tensordot(x, y, axes))


DOTS = {
    "dot": dlvm.dot,
    "inner": dlvm.inner,
    "vdot": dlvm.vdot,
    "vecdot": dlvm.vecdot,
    "matmul": dlvm.matmul,
    "tensordot": lambda x, y: dlvm.tensordot(x, y, 1),
    "einsum": lambda x, y: dlvm.einsum("i,i", x, y),
    "batched": lambda x, y: dlvm.einsum("bi,bi->b", x[None], y[None])[0],
}


@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_products_of_halves_are_rounded_once(name: str, kind: Any):
    """What overflows, or is lost, in a product alone is there in the sum of all of them."""
    x = np.array([1000, 1000, 257, 289], kind)
    y = np.array([1000, -1000, 1.125, -1], kind)
    for f in (DOTS[name], dlvm.function(DOTS[name])):
        found = f(x, y)
        assert found.dtype == kind
        assert found == kind(float(x.astype(float) @ y.astype(float)))


@pytest.mark.parametrize("axes", [0, 1, 2, ((0, 1), (1, 0)), (0, 1)])
def test_axes_of_tensordot(axes: Any):
    rng = np.random.default_rng(0)
    x, y = whole(rng, (3, 3, 3)), whole(rng, (3, 3, 3))
    assert np.array_equal(dlvm.tensordot(x, y, axes), np.tensordot(x, y, axes))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda x: dlvm.einsum("ij,jk", x), "speaks of 2 operands, found 1"),
        (lambda x: dlvm.einsum("i", x), "labels 1 axes, the operand has 2"),
        (lambda x: dlvm.einsum("i1->i", x), "'1' in .* is no label"),
        (lambda x: dlvm.einsum("ij->ik", x), "'k' after -> .* labels no axis"),
        (lambda x: dlvm.einsum("ij->ii", x), "'i' stands twice"),
        (lambda x: dlvm.einsum("i...->i", x), r"(?s)not in the result.*write \.\.\. after"),
        (lambda x: dlvm.einsum("ij,ij->", x, x[:, :2]), "label 'j' have sizes 3, 2"),
        (lambda x: dlvm.einsum("ii", x), "diagonal: expected last two axes of one size"),
        (lambda x: dlvm.tensordot(x, x, 1), "axis 1 of .* has size 3"),
        (lambda x: dlvm.tensordot(x, x, ((0,), (0, 1))), "1 axes of"),
        (lambda x: dlvm.vecdot(x, x[:, :2]), "vectors of 3 and of 2"),
    ],
)  # fmt: skip
def test_mistakes_are_said_in_words(wrong: Any, words: str):
    with pytest.raises(UserError, match=words):
        dlvm.function(wrong)(np.ones((2, 3)))
