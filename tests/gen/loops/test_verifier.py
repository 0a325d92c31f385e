"""The verifier of loops: what it refuses, and that what it refuses would really go wrong."""

import itertools
import random

import numpy as np
import pytest

from dlvm.base.errors import CompilerError
from dlvm.gen.loops import counterexamples, proofs
from dlvm.gen.loops.digits import distinct
from dlvm.gen.loops.interpreter import Counts, run_kernel
from dlvm.gen.loops.proofs import Facts
from dlvm.gen.loops.statements import (
    Barrier,
    Buffer,
    Define,
    Let,
    Load,
    Local,
    Loop,
    LoopKernel,
    Number,
    Store,
)
from dlvm.gen.loops.verifier import verify
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.blocks import blocks
from dlvm.gen.schedule.planner import planned
from dlvm.ir import F32, TensorType, parse
from dlvm.ir.sizes.dims import evaluate, floordiv, maximum, minimum, mod, symbol
from dlvm.ops import Kernel

N, M, HERE, J = symbol("N"), symbol("M"), symbol("%i"), symbol("%j")
X, Y = (Buffer(name, TensorType(F32, (N,)), role) for name, role in (("x", "in"), ("y", "out")))


def kernel(*body):
    return LoopKernel("k", (X, Y), ("N",), body, may_raise=False)


def copy(source, target, kind="vector", extent=N, where=()):
    found = Load(F32, X, source, where)
    return kernel(Loop("%i", extent, kind, (Let(found), Store(Y, target, found, where))))


def test_a_copy_passes():
    verify(copy(HERE, HERE))
    verify(copy(N - 1 - HERE, HERE))
    verify(copy(HERE, HERE, "serial", N + 1, (N - 1 - HERE,)))


@pytest.mark.parametrize("source", [HERE + 1, HERE - 1, 2 * HERE, N - HERE])
def test_reading_outside_is_refused(source):
    bad = copy(source, HERE)
    with pytest.raises(CompilerError, match="inside"):
        verify(bad)
    with pytest.raises(CompilerError, match="outside"):
        run(bad)


def test_writing_outside_is_refused():
    with pytest.raises(CompilerError, match="inside"):
        verify(copy(HERE, HERE, extent=N + 1))


@pytest.mark.parametrize("target", [0 * HERE, floordiv(HERE, 2), mod(HERE, 3)])
def test_two_turns_that_write_one_element_are_refused(target):
    with pytest.raises(CompilerError, match=r"one element|inside"):
        verify(copy(HERE, target))


def test_a_result_written_twice_is_refused_even_in_order():
    with pytest.raises(CompilerError, match="one element"):
        verify(kernel(Loop("%j", 2, "serial", copy(HERE, HERE).body)))


ROWS = Buffer("rows", TensorType(F32, (6, N + 1)), "out")


def rows_and_ends(end, start=N + 1):
    """Each of three turns writes a row of N elements, and one element at an offset behind it."""
    one, row = Number(F32, 1.0), (N + 1) * HERE
    inner = Loop("%j", N, "vector", (Store(ROWS, row + J + start, one),))
    body = Loop("%i", 3, "parallel", (inner, Store(ROWS, row + end, one)))
    return LoopKernel("k", (ROWS,), ("N",), (Let(one), body), may_raise=False)


@pytest.mark.parametrize("end", [2 * N + 1, N * 0, N, N + 1, 2 * N + 2, 2 * N + 3, 0 * N + 1])
@pytest.mark.parametrize("start", [N + 1, N + 2, 0 * N, 0 * N + 1])
def test_what_different_turns_write_is_apart_at_every_size_or_refused(start, end):
    def written(n, i):
        at = evaluate(end, {"N": n})
        first = evaluate(start, {"N": n})
        return {(n + 1) * i + first + j for j in range(n)}, {(n + 1) * i + at}

    apart = all(
        row.isdisjoint(other_end)
        for n in range(6)
        for i, k in itertools.permutations(range(3), 2)
        for row, other_end in [(written(n, i)[0], written(n, k)[1])]
    )
    try:
        verify(rows_and_ends(end, start))
    except CompilerError as error:
        assert "share an element" in str(error)
        assert not apart or (start, end) not in ((N + 1, 2 * N + 1), (0 * N, N))
    else:
        assert apart


GRID = Buffer("grid", TensorType(F32, (N, N)), "scratch")


def eliminated(first, columns=1):
    """In step k each row from ``first`` on takes in what row k has in some columns."""
    row, k = first + HERE, symbol("%k")
    read = Load(F32, GRID, k * N + J)
    inner = Loop("%j", columns, "vector", (Let(read), Store(GRID, row * N + J, read)))
    rows = Loop("%i", N - first, "parallel", (inner,))
    step = Loop("%k", N, "serial", (rows,))
    return LoopKernel("k", (GRID,), ("N",), (step,), may_raise=False)


ROOM = Buffer("room", TensorType(F32, (8, N + 1)), "scratch")


def dealt(step, ahead=0):
    """Each of N turns writes every ``step``-th element from its own on, and reads such ones."""
    i, turn = symbol("%i"), symbol("%turn")
    read = Load(F32, ROOM, (2 - i) * step + turn + ahead)
    body = (Let(read), Store(ROOM, i * step + turn, read))
    loop = Loop("%turn", N, "parallel", (Loop("%i", 3, "serial", body),))
    return LoopKernel("k", (ROOM,), ("N",), (loop,), may_raise=False)


@pytest.mark.parametrize(
    ("step", "ahead"), [(N, 0), (2 * N, 0), (N, N), (N - 1, 0), (N, 1), (2 * N, 1), (0 * N + 1, 0)]
)
def test_elements_are_dealt_out_to_as_many_turns_as_there_are_or_refused(step, ahead):
    """For open extents: steps that are whole multiples of it, and nothing else."""

    def touched(n, turn, ahead):
        far, more = evaluate(step, {"N": n}), evaluate(ahead, {"N": n})
        return {i * far + turn + more for i in range(3)}

    apart = all(
        touched(n, one, 0).isdisjoint(touched(n, other, ahead))
        for n in range(1, 7)
        for one, other in itertools.permutations(range(n), 2)
    )
    if apart:
        verify(dealt(step, ahead))
    else:
        with pytest.raises(CompilerError, match="share an element"):
            verify(dealt(step, ahead))


@pytest.mark.parametrize("seed", range(4))
def test_what_a_counterexample_refutes_is_never_proven(seed, monkeypatch):
    """Values that are drawn satisfy all facts, and no search shows what is false for them."""
    rng = random.Random(seed)
    facts = Facts().with_variable("%i", N - 1, N - 1).given(M - HERE - 1)
    facts = facts.with_variable("%j", minimum(HERE, M) + 2).given(J - floordiv(N, 3))
    parts = (N, M, HERE, J, N * M, HERE * N, minimum(N, M), floordiv(HERE, 2), 1)
    claims = [sum(rng.randint(-2, 2) * part for part in parts) for _ in range(20)]
    known = tuple(facts.highest.items()), facts.holds
    refuted = [d for d in claims if counterexamples.is_false(d, known)]
    points = counterexamples.points(known)
    assert refuted and points
    assert all(evaluate(f, point) >= 0 for f in facts.holds for point in points)
    assert all(0 <= point["%i"] < point["N"] for point in points)
    monkeypatch.setattr(proofs, "is_false", lambda d, known: False)
    assert not any(facts.nonnegative(d, 100) for d in refuted)


def test_rows_may_read_a_row_above_that_all_of_them_read():
    """The loop over k stands still while rows are taken in, so row k is above each of these."""
    k = symbol("%k")
    verify(eliminated(k + 1, N))
    for first in (k, 0 * N):  # row k is one of those that are written
        with pytest.raises(CompilerError, match="share an element"):
            verify(eliminated(first, N))


def test_the_smaller_of_two_sizes_says_something_of_both():
    facts = Facts({}, (minimum(N, M) - 1,))
    assert facts.nonnegative(N - 1) and facts.nonnegative(M - 1)
    assert not facts.nonnegative(N - 2)
    assert not Facts({}, (maximum(N, M) - 1,)).nonnegative(N - 1)
    assert not Facts({}, (3 - minimum(N, M),)).nonnegative(3 - N)


def shared(*statements):
    array = Local("a", F32, 32, shared=True)
    one = Number(F32, 1.0)
    body = [Let(one)]
    for s in statements:
        if s == "write":
            body.append(Store(array, HERE, one))
        elif s == "read":
            body.append(Let(Load(F32, array, 31 - HERE)))
        else:
            body.append(Barrier())
    return kernel(array, Loop("%i", 32, "lane", tuple(body)))


def test_lanes_that_read_what_others_write_need_a_barrier():
    verify(shared("write", "meet", "read"))
    with pytest.raises(CompilerError, match="share an element"):
        verify(shared("write", "read"))
    with pytest.raises(CompilerError, match="share an element"):
        verify(shared("meet", "read", "write"))


def test_a_scalar_from_nowhere_is_refused():
    with pytest.raises(CompilerError, match="not defined above"):
        verify(kernel(Store(Y, 0, Number(F32, 1.0), (N - 1,))))


def run(bad):
    x, y = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    run_kernel(bad, [x, y], {"N": 6}, np.zeros(4, np.int64), Counts())


def test_proofs_hold_for_every_small_value():
    """Whatever is proven of these is true of all values, and some of it is proven."""
    claims = [
        (minimum(4, N - 4 * J) - 1 - HERE, minimum(4, N - 4 * J)),
        (N - 1 - 4 * J - HERE, minimum(4, N - 4 * J)),
        (N - 1 - 2 * J - HERE, 2),
        (floordiv(N, 2) - J, 3),
    ]
    proven = 0
    for claim, inner in claims:
        outer = floordiv(N + 3, 4)
        facts = Facts().with_variable("%j", outer - 1, outer - 1)
        facts = facts.with_variable("%i", inner - 1, inner - 1)
        if facts.nonnegative(claim):
            proven += 1
            assert all(holds(claim, n, outer, inner) for n in range(20))
    assert proven == 3


def holds(claim, n, outer, inner):
    from dlvm.ir.sizes.dims import evaluate

    for j in range(evaluate(outer, {"N": n})):
        for i in range(evaluate(inner, {"N": n, "%j": j})):
            if evaluate(claim, {"N": n, "%j": j, "%i": i}) < 0:
                return False
    return True


def test_elements_that_a_shared_fold_keeps_are_its_turns_own():
    """The rest of a chunk lies behind a quotient in which the turn itself stands."""
    module = parse(
        """dlvm 1
func @main(%x: f32[A]) -> f32[A] {
  %0 = kernel [%x] family="loops" : f32[A]
    body(%x0: f32[A]) -> f32[A] {
      %0 = exp %x0 : f32[A]
      %1 = sum %0 axes=(0) : f32
      %2 = broadcast %1 shape=(A) axes=() : f32[A]
      %3 = div %0, %2 : f32[A]
      return %3
    }
  return %0
}
"""
    )
    kernel = planned(lower(module.main.ops[0], "k"))
    assert str(kernel).count("store %b1[%k") == 5 and "parallel %chunk" in str(kernel)
    verify(kernel)


def test_a_search_that_goes_deep_gives_up():
    """The claim is one that a random search found to nest without end."""
    i, j, a, b = map(symbol, ("%i", "%j", "A", "B"))
    high = floordiv(i, a) + maximum(4, b) - 1
    facts = Facts().with_variable("%i", b - 1, b - 1).with_variable("%j", high, high)
    assert not facts.given(a - i + j).nonnegative(2 * mod(b, a) - i)


def test_offsets_that_are_called_distinct_are():
    """Quotients and rests of one variable beside another, against every value."""
    dice, shown = random.Random(1), 0
    i, j = symbol("%i"), symbol("%j")
    for _ in range(2000):
        most, across, by = dice.randint(1, 12), dice.randint(1, 5), dice.randint(1, 5)
        steps = [dice.choice([0, 1, 2, 3, 4, 5, 6, 8, 9, 12, 15, 20]) for _ in range(3)]
        offset = steps[0] * floordiv(i, by) + steps[1] * mod(i, by) + steps[2] * j
        offset = offset + dice.choice([0, 0, 0, 1]) * i
        down = dice.randint(1, most)
        facts = Facts().with_variable("%i", most - 1).with_variable("%j", across - 1)
        if distinct(offset, ["%i", "%j"], facts.given(down - 1 - i), {}):
            shown += 1
            pairs = itertools.product(range(down), range(across))
            values = [evaluate(offset, {"%i": a, "%j": b}) for a, b in pairs]
            assert len(set(values)) == len(values), offset
    assert shown > 400


@pytest.mark.parametrize(
    ("offset", "dim"),
    [
        (4 * floordiv(HERE, 3) + mod(HERE, 3) + symbol("%d"), 3 - mod(HERE, 4)),
        (4 * HERE + symbol("%d"), 12 - 4 * HERE),
        (4 * HERE + symbol("%d"), 12 - 4 * mod(HERE, 4)),
    ],
)
def test_a_name_for_an_index_hides_none_that_stands_beside_it(offset, dim):
    one = Number(F32, 1.0)
    out = Buffer("out", TensorType(F32, (64,)), "out")
    body = (Let(one), Define("%d", dim, 12), Store(out, offset, one, ()))
    loop = Loop("%i", 4, "parallel", body)
    with pytest.raises(CompilerError, match="two turns may write one element"):
        verify(LoopKernel("k", (out,), (), (loop,), may_raise=False))


def test_two_names_for_one_index_are_no_two_digits():
    one, out = Number(F32, 1.0), Buffer("out", TensorType(F32, (64,)), "out")
    names = (Define("%d", HERE, 3), Define("%e", 3 - HERE, 3))
    body = (Let(one), *names, Store(out, symbol("%d") + symbol("%e"), one, ()))
    with pytest.raises(CompilerError, match="two turns may write one element"):
        verify(LoopKernel("k", (out,), (), (Loop("%i", 4, "parallel", body),), may_raise=False))


def test_a_step_that_another_variable_makes_is_no_digit():
    x, y = symbol("%x"), symbol("%y")
    facts = Facts().with_variable("%x", 3).with_variable("%y", 3).given(y - 1)
    assert not distinct(x * y + y - 1, ["%x", "%y"], facts, {})


@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 3, 2), (2, 2, 9)])
def test_a_fold_over_a_middle_axis_writes_each_element_once_on_a_gpu(shape):
    a, b, c = shape
    op = parse(
        f"""dlvm 1
func @k(%x: f32[{a},{b},{c}]) -> (f32[{a},{c}], f32[{a},{b},{c}]) {{
  %0 = neg %x : f32[{a},{b},{c}]
  %1 = sum %0 axes=(1) : f32[{a},{c}]
  return %1, %0
}}
"""
    ).main
    verify(blocks(lower(Kernel(op.params, op, "loops"), "k"), 32))
