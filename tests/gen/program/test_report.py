"""The report's numbers are what the interpreter counts."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.gen.build import build
from dlvm.gen.loops.statements import Let, Loop, Number
from dlvm.gen.loops.work import count
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import ALIGNMENT
from dlvm.gen.program.report import program_flops
from dlvm.ir import F32, parse
from dlvm.ir.interpret import bind
from dlvm.ir.sizes import dims
from dlvm.ir.sizes.dims import evaluate
from tests.gen.control_cases import BATCH, CASES, whole
from tests.gen.program.test_control import run_steps


@pytest.mark.parametrize("name", ["scan", "scan_reverse", "scatter", "swap", "batch"])
def test_flops_are_what_is_counted(name: str):
    case = next(c for c in CASES if c.name == name)
    params = case.module.main.params
    total = program_flops(coalesce(to_program(case.module)))
    for arrays in case.calls:
        sizes = bind([p.type for p in params], [np.asarray(a) for a in arrays], [""] * len(params))
        assert evaluate(total, sizes) == run_steps(case.module, *arrays).flops


def test_places_that_run_one_kernel_are_each_counted():
    def f(a: Any, b: Any, c: Any) -> Any:
        return a @ b, a @ c

    report = dlvm.function(f).compile(*(np.ones((32, 32), np.float32) for _ in range(3))).report
    assert (report.kernels, report.launches) == (1, 2)
    assert report.to_dict()["launches"] == 2


LONG = """dlvm 1
func @f(%x: f32[2,N]) -> f32[2] {
  %0 = logsumexp %x axes=(1) : f32[2]
  return %0
}
"""


@pytest.mark.parametrize("size", [0, 1, 33, 4096, 10000])
def test_flops_of_a_reduction_over_several_chunks(size: int):
    module = parse(LONG)
    total = program_flops(coalesce(to_program(module)))
    assert evaluate(total, {"N": size}) == run_steps(module, whole(2, size)).flops


WINDOW = """dlvm 1
func @f(%x: f32[2,N]) -> (f32[2], f32[SIZE,2]) {
  %0 = slice %x starts=(0,0) sizes=(2,SIZE) steps=(1,1) : f32[2,SIZE]
  %1 = sum %0 axes=(1) : f32[2]
  %2 = permute %0 perm=(1,0) : f32[SIZE,2]
  %3 = tanh %2 : f32[SIZE,2]
  return %1, %3
}
"""


@pytest.mark.parametrize(
    "size", ["min(2,N)", "min(5000,N)", "floordiv(N,3)", "min(N,mod(N,3))", "N-floordiv(N,2)"]
)
def test_flops_of_windows_of_an_open_axis(size: str):
    module = parse(WINDOW.replace("SIZE", size))
    total = program_flops(coalesce(to_program(module)))
    for n in (0, 1, 2, 65, 10000):
        assert evaluate(total, {"N": n}) == run_steps(module, whole(2, n)).flops


def test_turns_without_a_known_sum_are_added_or_count_as_the_first():
    held = Let(Number(F32, 1.0))
    inner = Loop("%j", 5 - dims.mod(dims.symbol("%i"), 3), "serial", (held,))
    for turns, expected in ((4, 5 + 4 + 3 + 5), (1000, 5000)):
        outer = Loop("%i", turns, "serial", (inner,))
        assert count((outer,), lambda s: int(s is held)) == expected


def test_flops_of_a_fold_of_nothing():
    module = parse(LONG.replace("[2,N]", "[2,0]"))
    counted = run_steps(module, whole(2, 0)).flops
    assert program_flops(coalesce(to_program(module))) == counted == 4


def test_a_while_counts_one_trip_and_a_condition_its_dearer_branch():
    loop = next(c for c in CASES if c.name == "while")
    trip = run_steps(loop.module, whole(3), np.int64(1)).flops
    assert program_flops(coalesce(to_program(loop.module))) == trip == 3
    cond = next(c for c in CASES if c.name == "cond")
    costs = [run_steps(cond.module, *arrays).flops for arrays in cond.calls]
    assert program_flops(coalesce(to_program(cond.module))) == max(costs) > min(costs)


def test_a_report_in_symbols_becomes_numbers():
    report = build(parse("dlvm 1\n" + BATCH)).report
    assert json.loads(json.dumps(report.to_dict()))["flops"] == str(report.flops)
    known = report.at(B=17)
    assert known.flops == run_steps(parse("dlvm 1\n" + BATCH), whole(17, 3), whole(3, 2)).flops
    assert isinstance(known.peak_bytes, int) and isinstance(known.bytes, int)
    assert set(report.seconds) == {"loops", "memory", "llvm", "machine"}
    assert report.kernels == 3 == len(report.estimates)
    assert all(isinstance(t, int) and t > 0 for t in known.estimates.values())
    written = report.to_dict()["estimates"]
    assert {k: str(t) for k, t in written.items()} == {
        k: str(t) for k, t in report.estimates.items()
    }


@pytest.mark.parametrize("dynamic", [False, {"x": "N"}], ids=["known", "open"])
def test_what_an_activation_leases_is_what_the_code_asks_for(dynamic: Any):
    @dlvm.function(dynamic=dynamic)
    def halved(x: Any) -> Any:
        def again(v: Any) -> Any:
            down = dlvm.cumulative_sum(dlvm.sort(v))
            return dlvm.sort(halved(down * 0.5) + v)

        return dlvm.cond(x.max() > 1, again, lambda v: v, x)

    compiled = halved.compile(np.full(1000, 9.0))
    known = compiled.report.at(N=1000)
    calls = re.findall(r"@activation\(ptr %context, i64 (\d+)", compiled.text("llvm"))
    assert isinstance(known.activation_bytes, int)
    assert (
        known.activation_bytes >= 2 * 8000
    )  # what is computed while a call is open, and its result
    if not dynamic:
        assert known.activation_bytes == max(map(int, calls)) + ALIGNMENT
    assert set(compiled.report.to_dict()) > {"activation_bytes", "peak_bytes"}


def test_a_program_that_enters_nothing_leases_nothing_else():
    assert dlvm.function(dlvm.sin).compile(np.ones(3)).report.activation_bytes == 0


@pytest.mark.parametrize("n", [0, 2, 20, 63])
def test_a_triangle_of_loops_is_counted_exactly(n: int):
    """One n**3 / 3, a square root and n / 2 divisions for each column, and the symmetric part."""
    f = dlvm.function(dlvm.linalg.cholesky)
    found = f.compile(dlvm.spec(f"f64[{n},{n}]")).report.flops
    below = sum(2 * j * (j + 1) // 2 + j + 1 for j in range(n))
    assert found == below + 3 * n * n
