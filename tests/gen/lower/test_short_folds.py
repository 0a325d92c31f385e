"""Short folds that are written out: bits of the loops, vectors along results, code of pooling."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.gen.loops.statements import Loop, statements
from dlvm.gen.lower import short_folds
from dlvm.ir import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8
from dlvm.ir.sizes.dims import symbol
from tests.gen.compiled import Compiled, cpu, interpret, kernel, loops
from tests.gen.values import same_bits
from tests.special import kinds, special_values

FLOATS = (F32, F64, F16, BF16)
TYPES = (*FLOATS, BOOL, I8, I32, I64, U8)
ANY = ("max", "min", "argmax", "argmin")
CASES = [(t, n, (i + k) % 2) for i, t in enumerate(TYPES) for k, n in enumerate((3, 7))]
CASES += [(F32, n, axis) for n in (0, 1, 2, 3, 5, 7, 8, 16, 17) for axis in (0, 1)]
"""Every type with every length, and along either axis; every length along both axes."""
OUTER = (0, 1, 7, 37, 130)
"""Numbers of results: none, one, fewer than a vector, a prime, several vectors and a rest."""


def words(t):
    """The reductions that there are of a type."""
    numbers = () if t is BOOL else ("sum", "prod")
    return (*ANY, *numbers, *(("logsumexp",) if t in FLOATS else ()))


def text(t, n, axis):
    """Every reduction of a type along one axis of N x n, or of n x N, as one kernel."""
    shape = f"[N,{n}]" if axis else f"[{n},N]"
    names = words(t)
    types = [f"{'i64' if w.startswith('arg') else t.name}[N]" for w in names]
    lines = [
        f"  %{i} = {w} %x axes=({axis}) : {of}"
        for i, (w, of) in enumerate(zip(names, types, strict=True))
    ]
    given = ", ".join(f"%{i}" for i in range(len(names)))
    head = f"func @f(%x: {t.name}{shape}) -> ({', '.join(types)}) {{"
    return "\n".join([head, *lines, f"  return {given}", "}"])


PLAIN = (0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan)
"""Of these no fold overflows in one order and not in another."""


def drawn(t, shape, seed):
    """Rows of plain values and of all special ones; every second result of floats has no NaN."""
    rng = np.random.default_rng(seed)
    every = rng.choice(special_values(t), shape)
    if t not in FLOATS:
        return every, every
    plain = rng.choice(np.array(PLAIN), shape).astype(t.numpy)
    numbers = rng.standard_normal(shape).astype(t.numpy)
    return tuple(
        np.where(np.isnan(x.astype(np.float64)) & (rng.random(shape) < 0.8), numbers, x)
        for x in (plain, every)
    )


@pytest.mark.drawn(3)
@pytest.mark.parametrize(("t", "n", "axis"), dict.fromkeys(CASES), ids=str)
def test_written_out_and_in_loops_a_fold_has_the_same_bits(t, n, axis, monkeypatch):
    op, module = kernel(text(t, n, axis))
    code = Compiled(op)
    monkeypatch.setattr(short_folds, "ELEMENTS", 0)
    in_loops = Compiled(kernel(text(t, n, axis))[0])
    written_out = 0 < n <= (short_folds.NEAR if axis else 16)
    assert (code.text != in_loops.text) == written_out
    for m in OUTER:
        plain, every = drawn(t, (m, n) if axis else (n, m), m)
        for x in (plain, every):
            for word, a, b in zip(words(t), code(x)[0], in_loops(x)[0], strict=True):
                assert same_bits(a, b), (word, m)
        with np.errstate(all="ignore"):
            expected = module.run("f", plain)
        by_loops = interpret(op, (plain,))[0] if m < 40 else code(plain)[0]
        for word, a, b, c in zip(words(t), code(plain)[0], by_loops, expected, strict=True):
            assert np.array_equal(kinds(a), kinds(b)), (word, m)
            assert np.array_equal(kinds(a), kinds(np.asarray(c))), (word, m)
            if word in ANY or t not in FLOATS:
                assert same_bits(a, b) and same_bits(a, np.asarray(c)), (word, m)


DISTANCES = """func @f(%x: f32[N,3]) -> f32[N,N] {
  %0 = broadcast %x shape=(N,N,3) axes=(1,2) : f32[N,N,3]
  %1 = broadcast %x shape=(N,N,3) axes=(0,2) : f32[N,N,3]
  %2 = sub %0, %1 : f32[N,N,3]
  %3 = mul %2, %2 : f32[N,N,3]
  %4 = sum %3 axes=(2) : f32[N,N]
  return %4
}"""


SHARES = """func @f(%x: f32[N,14,14,C]) -> f32[N,7,7,C,2,2] {
  %0 = patches %x axes=(1,2) sizes=(2,2) steps=(2,2) dilations=(1,1) : f32[N,7,7,C,2,2]
  %1 = max %0 axes=(4,5) : f32[N,7,7,C]
  %2 = broadcast %1 shape=(N,7,7,C,2,2) axes=(0,1,2,3) : f32[N,7,7,C,2,2]
  %3 = sub %0, %2 : f32[N,7,7,C,2,2]
  return %3
}"""


@pytest.mark.parametrize(
    ("body", "shapes"),
    [(DISTANCES, [(0, 3), (1, 3), (5, 3), (61, 3)]), (SHARES, [(0, 6), (1, 1), (2, 6), (3, 17)])],
)
def test_any_vectors_and_threads_give_the_same_bits(body, shapes):
    op, module = kernel(body)
    codes = [Compiled(op, how) for how in (None, cpu(1, 1), cpu(4, 1), cpu(32, 1))]
    for shape in shapes:
        shape = shape if body is DISTANCES else (shape[0], 14, 14, shape[1])
        x = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
        x.reshape(-1)[5::17] = np.nan
        first = interpret(op, (x,))[0][0]
        np.testing.assert_allclose(first, module.run("f", x)[0], rtol=1e-6)
        for code in codes:
            for threads in (1, 2):
                assert same_bits(code(x, threads=threads)[0][0], first)


def vectors(f, *arrays):
    """The loops that become vectors, of all kernels, as their schedules say."""
    lines = dlvm.function(f).compile(*arrays).text("schedule").splitlines()
    return [line.split()[1] for line in lines if line.split()[:1] == ["vectorize"]]


def test_vectors_lie_along_the_results_and_not_along_the_fold():
    x = np.ones((40, 3), np.float32)
    windows = np.ones((2, 8, 8, 6), np.float32)

    def distances(x):
        return ((x[None] - x[:, None]) ** 2).sum(-1) ** 1.5

    def gradient(x):
        return dlvm.grad(lambda x: (nn.max_pool(x, 2) ** 2).sum())(x)

    folds = [(distances, x), (lambda x: nn.max_pool(x, 2), windows), (gradient, windows)]
    folds += [(lambda x: nn.avg_pool(x, 2), windows), (lambda x: x.max(0), x[:16])]
    for f, a in folds:
        text = dlvm.function(f).compile(a).text("nests").split("kernel @k1")[0]
        assert "local" not in text, text
        assert vectors(f, a), f
    assert any("%lane" in name for name in vectors(lambda x: x.sum(-1), np.ones((40, 9), "f4")))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_each_element_of_a_short_row_is_one_vector_of_results(n):
    op, _ = kernel(
        f"func @f(%x: f64[N,{n}]) -> f64[N] {{\n  %0 = sum %x axes=(1) : f64[N]\n  return %0\n}}"
    )
    (only,) = [s for s in statements(loops(op).body) if isinstance(s, Loop)]
    assert (only.kind, only.extent) == ("vector", symbol("N"))


def test_rows_whose_elements_lie_far_apart_stay_in_loops():
    op, _ = kernel(
        "func @f(%x: f32[N,8]) -> f32[N] {\n  %0 = sum %x axes=(1) : f32[N]\n  return %0\n}"
    )
    assert any("lane" in s.var for s in statements(loops(op).body) if isinstance(s, Loop))
