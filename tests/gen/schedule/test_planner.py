"""Planned schedules: no transform changes a bit of what the plain loops give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from dlvm.base.errors import UserError
from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.statements import Loop, statements
from dlvm.gen.loops.status import WORDS
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.planner import planned
from dlvm.gen.schedule.text import Schedule, parse_schedule, schedule_text
from dlvm.ir.sizes.dims import evaluate
from dlvm.ops import Kernel
from dlvm.testing.strategies import programs
from tests.gen.compiled import arguments, kernel, written
from tests.gen.lower.test_kernels import CENTRED, LEAVES, SOFTMAX
from tests.gen.values import same_bits

SHARED = 64
"""Units of work that are worth a thread here, so that loops of any size are shared."""
FEW = 3
"""Steps after each of which a kernel is run; of the others only after the last of a kind."""
COLUMNS = """func @f(%x: f32[B,N]) -> f32[N] {
  %s = sum %x axes=(0) : f32[N]
  return %s
}"""
TURNED = """func @f(%x: f32[B,N], %y: f64[N,B]) -> f64[B,N] {
  %c = cast %x dtype=f64 : f64[B,N]
  %t = permute %y perm=(1,0) : f64[B,N]
  %z = add %c, %t : f64[B,N]
  return %z
}"""
JOINED = """func @f(%x: f32[B,N], %y: f32[B,N]) -> f32[2*B,N] {
  %z = concat [%x, %y] axis=0 : f32[2*B,N]
  %w = exp %z : f32[2*B,N]
  return %w
}"""
KERNELS = {"softmax": SOFTMAX, "centred": CENTRED, "columns": COLUMNS, "turned": TURNED}
KERNELS["joined"] = JOINED
KERNELS["largest"] = """func @f(%x: f32[B,N]) -> f32[B] {
  %m = max %x axes=(1) : f32[B]
  return %m
}"""


def interpreted(loops, op, arrays):
    buffers, found = arguments(loops, op, arrays)
    status = np.zeros(WORDS, np.int64)
    run_kernel(loops, buffers, found, status, Counts())
    return written(loops, buffers), status


def stages(plain, width=0):
    """The loops after each step of the planned schedule, one after the other."""
    (steps,) = parse_schedule(schedule_text([planned(plain, None, SHARED, width)])).steps.values()
    words = [step.word for step in steps]
    for last, word in enumerate(words, 1):
        if last <= FEW or words[last : last + 1] != [word]:
            yield Schedule({plain.name: steps[:last]}).applied(plain)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs(classes=LEAVES, max_ops=6))
def test_no_step_changes_a_bit_of_a_random_kernel(program):
    op = Kernel(program.module.main.params, program.module.main, "loops")
    plain = lower(op, "k")
    verify(plain)
    expected, status = interpreted(plain, op, program.arrays)
    for loops in stages(plain):
        verify(loops)
        found, now = interpreted(loops, op, program.arrays)
        assert (status[0] != 0) == (now[0] != 0)
        assert status[0] or all(map(same_bits, found, expected))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("sizes", [(0, 3), (1, 1), (3, 0), (5, 33), (40, 7)])
def test_no_step_changes_a_bit(name, sizes):
    op, _ = kernel(KERNELS[name])
    rng = np.random.default_rng(0)
    dims = dict(zip("BN", sizes, strict=True))
    arrays = [
        rng.normal(size=[evaluate(d, dims) for d in p.type.shape]).astype(p.type.dtype.numpy)
        for p in op.body.params
    ]
    plain = lower(op, "k")
    expected, _ = interpreted(plain, op, arrays)
    for loops in stages(plain):
        assert all(map(same_bits, interpreted(loops, op, arrays)[0], expected))


def test_plain_loops_name_no_vector_and_no_thread():
    for text in KERNELS.values():
        loops = [s for s in statements(lower(kernel(text)[0], "k").body) if isinstance(s, Loop)]
        assert {s.kind for s in loops} <= {"parallel", "serial"}
        assert all(s.grain == 0 for s in loops)


def test_a_schedule_round_trips_as_text():
    made = [
        planned(lower(kernel(t)[0], f"k{i}"), None, SHARED) for i, t in enumerate(KERNELS.values())
    ]
    text = schedule_text(made)
    again = [
        parse_schedule(text).applied(lower(kernel(t)[0], f"k{i}"))
        for i, t in enumerate(KERNELS.values())
    ]
    assert schedule_text(again) == text
    assert [str(k) for k in again] == [str(k) for k in made]
    words = {line.split()[0] for line in text.splitlines()[1:]}
    tiles = {"split", "interchange", "stage", "use"}
    assert words == {
        *("kernel", "cut", "simplify", "fuse", "prefetch", "share", "vectorize"),
        *tiles,
        *("unswitch", "keep", "group"),
    }


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("", "begins with the line 'schedule 1', found nothing"),
        ("schedule 2\n", "found 'schedule 2'"),
        ("schedule 1\n  vectorize %i1", "expected kernel @name"),
        ("schedule 1\nkernel @k\nkernel @k", "named twice"),
        (
            "schedule 1\nkernel @k\n  vectorise %i1",
            "no transform 'vectorise'; there are ahead, apart, bind",
        ),
        ("schedule 1\nkernel @k\n  vectorize i1", "expected a name starting with %"),
        ("schedule 1\nkernel @k\n  vectorize %i1 wide=3", "takes strip, width, not wide"),
        ("schedule 1\nkernel @k\n  share %i1", "share needs grain"),
        ("schedule 1\nkernel @k\n  vectorize %i1 width=N", "width: expected a whole number"),
        ("schedule 1\nkernel @k\n  vectorize %nowhere", "@k has no loop %nowhere"),
        ("schedule 1\nkernel @k\n  units %kernel", "its loops can't have this form"),
        ("schedule 1\nkernel @k\n  simplify %kernel\n  keep %kernel", "before all other steps"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused(text, pattern):
    plain = lower(kernel(SOFTMAX)[0], "k")
    with pytest.raises(UserError, match=pattern):
        parse_schedule(text).applied(plain)
