"""Kernels of factorisations: to the bit what the operations say, up to the size of a panel.

Larger ones go through products, which round otherwise: they agree to rounding errors.
"""

import re
from functools import cache, partial

import numpy as np
import pytest

from dlvm.gen.gpu.nvptx import emit_gpu_kernel
from dlvm.gen.lower.matrices import (
    bidiagonal,
    eigenvalues,
    singular_values,
    spectra,
    sweeps,
    tridiagonal,
)
from dlvm.ir import DTYPES
from dlvm.ops import factorisations
from dlvm.ops.factorisations import eigh, rotations
from dlvm.target import Target
from tests.gen.compiled import Compiled, cpu, gpu, interpret, kernel, loops, ptx_of
from tests.gen.values import same_bits

LAID = cpu(work=1)
"""Loops that threads share whatever they cost: most tests take these, which are proven once."""
SQUARE = "{t}[B,N,N]"
TEXTS = {
    "cholesky": ("%v = cholesky %x : {s}", "{s}"),
    "lu": ("%v, %w = lu %x : {s}, i64[B,N]", "{s}, i64[B,N]"),
    **{
        f"triangular_solve {lower} {transposed} {unit}": (
            f"%v = triangular_solve %x, %b lower={lower} transposed={transposed} unit={unit} "
            ": {t}[B,N,M]",
            "{t}[B,N,M]",
        )
        for lower, transposed, unit in (
            ("true", "false", "false"),
            ("false", "false", "true"),
            ("true", "true", "true"),
            ("false", "true", "false"),
        )
    },
    "qr": (
        "%v, %w = qr %b : {t}[B,N,min(M,N)], {t}[B,min(M,N),M]",
        "{t}[B,N,min(M,N)], {t}[B,min(M,N),M]",
    ),
    "eigh": ("%v, %w = eigh %x : {t}[B,N], {s}", "{t}[B,N], {s}"),
    "eigh accurate": ("%v, %w = eigh %x accurate=true : {t}[B,N], {s}", "{t}[B,N], {s}"),
    "schur": ("%v, %w = schur %x : {s}, {s}", "{s}, {s}"),
    **{
        f"svd {kind}": (
            f"%u, %v, %w = svd %b {said} : "
            "{t}[B,N,min(M,N)], {t}[B,min(M,N)], {t}[B,min(M,N),M]",
            "{t}[B,N,min(M,N)], {t}[B,min(M,N)], {t}[B,min(M,N),M]",
        )
        for kind, said in (
            ("true", "left=true"),
            ("false", "left=false"),
            ("accurate", "accurate=true"),
        )
    },
}
OPEN = [name for name in TEXTS if name != "svd false"]
"""What is compiled for open sizes: both forms of ``svd`` differ in their signs alone."""
SIZES = [(2, 0, 3), (3, 1, 2), (2, 2, 0), (2, 7, 3), (0, 3, 3), (3, 13, 20), (1, 33, 17)]


@cache
def factorising(name: str, t: str, sizes: tuple[int, int, int] | None = None):
    line, types = (part.format(t=t, s=SQUARE.format(t=t)) for part in TEXTS[name])
    given = line.split(" =")[0]
    shown = f"({types})" if "," in given else types
    text = f"""func @f(%x: {t}[B,N,N], %b: {t}[B,N,M]) -> {shown} {{
      {line}
      return {given}
    }}"""
    return kernel(text if sizes is None else fixed(text, *sizes), "factorisation")


def fixed(text: str, b: int, n: int, m: int) -> str:
    """A text with these sizes."""
    text = text.replace("min(M,N)", str(min(m, n)))
    for name, size in zip("BNM", (b, n, m), strict=True):
        text = re.sub(rf"\b{name}\b", str(size), text)
    return text


def operands(name: str, t: str, size: tuple[int, int, int], seed: int = 3):
    b, n, m = size
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((b, n, n))
    if name == "cholesky":
        x = x @ x.swapaxes(-1, -2) + 0.5 * np.eye(n)
    return [a.astype(DTYPES[t].numpy) for a in (x, rng.standard_normal((b, n, m)))]


BLOCKED = [
    name for name in TEXTS if name.split()[0] in ("cholesky", "lu", "qr", "triangular_solve")
]
LARGE = [(2, 65, 1), (1, 128, 64), (1, 193, 200), (1, 300, 70)]


def tame(name: str, t: str, size: tuple[int, int, int]):
    """Operands of which rounding errors stay small: the triangles of random ones are nothing."""
    x, b = operands(name, t, size)
    return [x + size[1] * np.eye(size[1], dtype=x.dtype) if "solve" in name else x, b]


def close(found, expected, n: int) -> bool:
    """Equal indices, and floats that differ by rounding errors."""
    if found.dtype.kind == "i":
        return np.array_equal(found, expected)
    eps = float(np.finfo(np.float32 if found.dtype.itemsize == 4 else np.float64).eps)
    size = np.abs(expected).max(initial=0)
    return bool(np.abs(found - expected).max(initial=0) <= 100 * n * eps * size)


HALVES = {name: ("f16", "bf16")[i % 2] for i, name in enumerate(TEXTS)}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("t", ("f32", "half"))
@pytest.mark.parametrize("name", OPEN)
def test_every_type_and_size_gives_the_bits_of_the_reference(name: str, t: str):
    """Of f64, the next test; both halves are computed in f32, and every second name takes one."""
    t = HALVES[name] if t == "half" else t
    op, module = factorising(name, t)
    code = Compiled(op)
    for size in SIZES:
        arrays = operands(name, t, size)
        expected = module.run("f", *arrays)
        assert all(map(same_bits, code(*arrays)[0], expected)), size


SOME = np.array([0.0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 1e200, -1e-200, 5e-324])


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", OPEN)
def test_one_code_serves_every_size_number_of_threads_and_what_has_no_factor(name: str):
    """To the bit of the reference; large matrices to rounding errors."""
    op, module = factorising(name, "f64")
    code = Compiled(op, LAID)
    for size in SIZES:
        arrays = operands(name, "f64", size)
        expected = module.run("f", *arrays)
        assert all(map(same_bits, code(*arrays)[0], expected)), size
    for seed in range(30):
        rng = np.random.default_rng(seed)
        numbers = SOME[: 5 + 6 * (seed % 2)]
        arrays = [rng.choice(numbers, s) for s in ((2, 4, 4), (2, 4, 3))]
        expected = module.run("f", *arrays)
        assert all(map(same_bits, code(*arrays)[0], expected)), seed
    for size in ((2, 61, 40), *LARGE) if name in BLOCKED else ((2, 41, 20),):
        arrays = tame(name, "f64", size)
        first = code(*arrays)[0]
        for threads in (2, 3):
            assert all(map(same_bits, code(*arrays, threads=threads)[0], first)), size
        if name in BLOCKED:
            pairs = zip(first, module.run("f", *arrays), strict=True)
            assert all(close(x, y, size[1]) for x, y in pairs), size


@pytest.mark.drawn(3)
@pytest.mark.parametrize("n", (0, 1, 2))
@pytest.mark.parametrize("name", TEXTS)
def test_batches_of_small_matrices_of_known_sizes_give_the_bits_of_the_reference(name: str, n: int):
    for size in ((2, n, 1), (3, n, 2)):
        op, module = factorising(name, "f64", size)
        arrays = operands(name, "f64", size)
        expected = module.run("f", *arrays)
        assert all(map(same_bits, Compiled(op)(*arrays)[0], expected)), size


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", TEXTS)
def test_the_loops_give_the_bits_of_the_reference_in_the_interpreter(name: str):
    op, module = factorising(name, "f64")
    for size, schedule in (
        ((2, 0, 3), LAID), ((3, 1, 2), LAID), ((2, 5, 3), LAID), ((2, 2, 0), gpu(4)),
        ((2, 4, 3), gpu(4)), ((1, 10, 9), LAID), ((1, 10, 9), gpu(4)),
    ):  # fmt: skip
        if name in ROTATED and size[1] > 6:  # there is no other method for more rows
            continue
        arrays = operands(name, "f64", size)
        expected = module.run("f", *arrays)
        assert all(map(same_bits, interpret(op, arrays, schedule)[0], expected)), size


def test_a_gpu_takes_a_matrix_with_each_lane(drawn_third: slice):
    """They are emitted, in text that names only what a GPU has; two are assembled."""
    for name in {*[*TEXTS][drawn_third], "lu", "svd true"}:
        lowered = loops(factorising(name, "f64")[0], gpu(4))
        assert "@k(" in str(emit_gpu_kernel(lowered, Target.cuda("sm_80")))
        if name in ("lu", "svd true"):
            assert ".entry k" in ptx_of([lowered])


@pytest.mark.parametrize("name", BLOCKED)
def test_large_matrices_of_known_sizes_agree_to_rounding_errors(name: str):
    for t, size in (("f64", (1, 193, 200)), ("f32", (2, 65, 1))):
        op, module = factorising(name, t, size)
        code = Compiled(op, LAID)
        arrays = tame(name, t, size)
        first = code(*arrays)[0]
        pairs = zip(first, module.run("f", *arrays), strict=True)
        assert all(close(x, y, size[1]) for x, y in pairs), size
        for threads in (2, 3):
            assert all(map(same_bits, code(*arrays, threads=threads)[0], first)), threads


@pytest.mark.parametrize("name", BLOCKED)
def test_large_matrices_in_the_interpreter_of_loops(name: str):
    size = (1, 70, 66)
    op, module = factorising(name, "f64", size)
    arrays = tame(name, "f64", size)
    pairs = zip(interpret(op, arrays)[0], module.run("f", *arrays), strict=True)
    assert all(close(x, y, 70) for x, y in pairs)


SPECTRA = ["eigh", "svd true"]
ROTATED = ["eigh accurate", "svd accurate"]


@pytest.mark.parametrize("name", SPECTRA)
def test_spectra_of_known_and_of_open_sizes_have_the_same_bits(name: str):
    """Both take rotations, plain steps or panels by the same sizes, for any number of threads."""
    open_ = Compiled(factorising(name, "f64")[0], LAID)
    for n in (1, 6, 9, 64, 65, 130):
        arrays = operands(name, "f64", (1, n, n))
        op, module = factorising(name, "f64", (1, n, n))
        known = Compiled(op, LAID)
        first = known(*arrays)[0]
        for found in (open_(*arrays)[0], known(*arrays, threads=3)[0]):
            assert all(map(same_bits, found, first)), n
        expected = module.run("f", *arrays)
        assert all(map(same_bits if n <= 64 else partial(close, n=n), first, expected)), n


@pytest.mark.parametrize("name", ROTATED)
def test_rotations_of_many_rows_have_the_bits_of_the_reference(name: str):
    """For known and open sizes, and for any number of threads."""
    size = (1, 66, 66)
    arrays = operands(name, "f64", size)
    op, module = factorising(name, "f64", size)
    known, expected = Compiled(op, LAID), module.run("f", *arrays)
    open_ = Compiled(factorising(name, "f64")[0], LAID)
    for code, threads in ((known, 1), (known, 2), (known, 3), (open_, 3)):
        assert all(map(same_bits, code(*arrays, threads=threads)[0], expected))


@pytest.mark.parametrize("name", SPECTRA)
def test_panels_of_spectra_in_the_interpreter_of_loops(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spectra, "PANEL", 7)
    for module in (tridiagonal, bidiagonal):
        monkeypatch.setattr(module, "WIDTH", 4)
    op, module = factorising(name, "f64", (1, 11, 11))
    arrays = operands(name, "f64", (1, 11, 11))
    pairs = zip(interpret(op, arrays)[0], module.run("f", *arrays), strict=True)
    assert all(close(x, y, 11) for x, y in pairs)


ENDLESS = {
    "eigh": ((2, 4, 1), (eigh, eigenvalues)),
    "eigh accurate": ((2, 9, 1), (rotations, eigenvalues)),
    "svd true": ((2, 5, 4), (rotations, singular_values)),
    "svd accurate": ((2, 9, 10), (rotations, singular_values)),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_rotations_that_come_to_no_end_give_nan(name: str, monkeypatch: pytest.MonkeyPatch):
    """If one sweep were all, that of a diagonal matrix would still have an end."""
    size, modules = ENDLESS[name]
    for module in modules:
        monkeypatch.setattr(module, "SWEEPS", 1)
    op, module = _alone(name, size)
    arrays = [np.array(x) for x in operands(name, "f64", size)]
    for x in arrays:
        x[1] = np.eye(*x.shape[1:])
    expected = module.run("f", *arrays)
    assert all(np.isnan(x[0]).all() and np.isfinite(x[1]).all() for x in expected)
    assert all(map(same_bits, Compiled(op)(*arrays)[0], expected))


@pytest.mark.parametrize("name", SPECTRA)
def test_sweeps_of_diagonals_that_come_to_no_end_give_nan(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    for module in (factorisations.tridiagonal, factorisations.bidiagonal, sweeps):
        monkeypatch.setattr(module, "MOST", 0)
    op, module = _alone(name, (1, 11, 10))
    arrays = operands(name, "f64", (1, 11, 10))
    for found in (module.run("f", *arrays), Compiled(op)(*arrays)[0]):
        assert all(np.isnan(x).all() for x in found)


def _alone(name: str, size: tuple[int, int, int]):
    """A kernel that no other test takes."""
    return factorising.__wrapped__(name, "f64", size)


def test_one_pivot_of_a_large_matrix_that_is_not_positive_makes_all_of_it_nan():
    size = (1, 150, 1)
    code = Compiled(factorising("cholesky", "f64", size)[0])
    for bad in (3, 70, 149):
        x, b = operands("cholesky", "f64", size)
        x[0, bad, bad] = -1
        assert np.isnan(code(x, b)[0][0]).all()


def test_ties_of_pivots_in_a_large_matrix_go_to_the_lowest_row():
    op, module = factorising("lu", "f64", (1, 130, 1))
    code = Compiled(op)
    x = np.random.default_rng(5).choice([-1.0, 1.0], (1, 130, 130))
    x = np.concatenate([x[:, 65:], x[:, 65:]], 1) + np.eye(130) * (np.arange(130) >= 100)
    found, expected = code(x, x[..., :1])[0], module.run("f", x, x[..., :1])
    assert np.array_equal(found[1][:, :40], expected[1][:, :40])
    assert found[1][0, 0] == np.argmax(np.abs(x[0, :, 0]))
