"""Kernels of factorisations: to the bit what the operations say, of every size and type."""

import numpy as np
import pytest

from dlvm.gen.gpu.nvptx import ptx
from dlvm.ir import DTYPES
from dlvm.target import Target
from tests.gen.compiled import Compiled, cpu, gpu, interpret, kernel, loops
from tests.gen.values import same_bits

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
    **{
        f"svd {left}": (
            f"%u, %v, %w = svd %b left={left} : "
            "{t}[B,N,min(M,N)], {t}[B,min(M,N)], {t}[B,min(M,N),M]",
            "{t}[B,N,min(M,N)], {t}[B,min(M,N)], {t}[B,min(M,N),M]",
        )
        for left in ("true", "false")
    },
}
SIZES = [(2, 0, 3), (3, 1, 2), (2, 2, 0), (2, 7, 3), (0, 3, 3), (3, 13, 20), (1, 33, 17)]


def factorising(name: str, t: str):
    line, types = (part.format(t=t, s=SQUARE.format(t=t)) for part in TEXTS[name])
    given = line.split(" =")[0]
    shown = f"({types})" if "," in given else types
    return kernel(
        f"""func @f(%x: {t}[B,N,N], %b: {t}[B,N,M]) -> {shown} {{
      {line}
      return {given}
    }}""",
        "factorisation",
    )


def operands(name: str, t: str, size: tuple[int, int, int], seed: int = 3):
    b, n, m = size
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((b, n, n))
    if name == "cholesky":
        x = x @ x.swapaxes(-1, -2) + 0.5 * np.eye(n)
    return [a.astype(DTYPES[t].numpy) for a in (x, rng.standard_normal((b, n, m)))]


@pytest.mark.parametrize("t", ("f64", "f32", "f16", "bf16"))
@pytest.mark.parametrize("name", TEXTS)
def test_every_type_and_size_gives_the_bits_of_the_reference(name: str, t: str):
    op, module = factorising(name, t)
    code = Compiled(op)
    for size in SIZES:
        arrays = operands(name, t, size)
        expected = module.run("f", *arrays)
        assert all(map(same_bits, code(*arrays)[0], expected)), size


@pytest.mark.parametrize("name", TEXTS)
def test_the_loops_give_the_bits_of_the_reference_in_the_interpreter(name: str):
    op, module = factorising(name, "f64")
    for size in SIZES[:5]:
        arrays = operands(name, "f64", size)
        expected = module.run("f", *arrays)
        for schedule in (None, gpu(4)):
            assert all(map(same_bits, interpret(op, arrays, schedule)[0], expected)), size


@pytest.mark.parametrize("name", TEXTS)
def test_a_gpu_takes_a_matrix_with_each_lane(name: str):
    op, _ = factorising(name, "f32")
    assert ".entry k" in ptx([loops(op, gpu(32))], Target.cuda("sm_80"))


@pytest.mark.parametrize("name", TEXTS)
def test_what_is_not_finite_or_has_no_factor_gives_the_same_bits(name: str):
    op, module = factorising(name, "f64")
    code = Compiled(op)
    some = np.array([0.0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 1e200, -1e-200, 5e-324])
    for seed in range(30):
        rng = np.random.default_rng(seed)
        numbers = some[: 5 + 6 * (seed % 2)]
        arrays = [rng.choice(numbers, s) for s in ((2, 4, 4), (2, 4, 3))]
        expected = module.run("f", *arrays)
        assert all(map(same_bits, code(*arrays)[0], expected)), seed


@pytest.mark.parametrize("name", TEXTS)
def test_any_number_of_threads_gives_the_same_bits(name: str):
    op, _ = factorising(name, "f32")
    code = Compiled(op, cpu(work=1))
    arrays = operands(name, "f32", (2, 61, 40))
    first = code(*arrays)[0]
    for threads in (2, 3):
        assert all(map(same_bits, code(*arrays, threads=threads)[0], first))
