"""The verifier of loops: what it refuses, and that what it refuses would really go wrong."""

import numpy as np
import pytest

from dlvm.errors import CompilerError
from dlvm.gen.loops import Barrier, Buffer, Let, Load, Local, Loop, LoopKernel, Number, Store
from dlvm.gen.loops_run import Counts, run_kernel
from dlvm.gen.loops_verify import verify
from dlvm.gen.lower import lower
from dlvm.gen.prove import Facts
from dlvm.ir import F32, TensorType, parse
from dlvm.ir.dims import floordiv, maximum, minimum, mod, symbol

N, HERE, J = symbol("N"), symbol("%i"), symbol("%j")
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
    from dlvm.ir.dims import evaluate

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
    kernel = lower(module.main.ops[0], "k")
    assert str(kernel).count("store %b1[%k") == 2 and "parallel %chunk" in str(kernel)
    verify(kernel)


def test_a_search_that_goes_deep_gives_up():
    """The claim is one that a random search found to nest without end."""
    i, j, a, b = map(symbol, ("%i", "%j", "A", "B"))
    high = floordiv(i, a) + maximum(4, b) - 1
    facts = Facts().with_variable("%i", b - 1, b - 1).with_variable("%j", high, high)
    assert not facts.given(a - i + j).nonnegative(2 * mod(b, a) - i)
