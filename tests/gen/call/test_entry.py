"""The entry in machine code: what it takes, what it leaves to the slow path, and its memory."""

from __future__ import annotations

import gc
import sys
import threading
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from dlvm.gen.build import build
from dlvm.gen.call import python_api
from dlvm.gen.call.entry_code import Field
from dlvm.gen.call.executable import Executable
from dlvm.gen.call.sizes import bound_by, largest, row
from dlvm.gen.loops.status import CallFailed
from dlvm.gen.runtime import allocator as blocks
from dlvm.ir import NUMBERS, parse
from dlvm.ir.sizes.dims import evaluate
from tests.gen.control_cases import CASES, Case
from tests.gen.program.test_control import assert_same


def built(text: str) -> Executable:
    return build(parse("dlvm 1\n" + text, "model.py"))


def entry(text: str, *kinds: type, bare: bool = False) -> Any:
    found = built(text).entry(kinds, bare=bare)
    assert found is not None
    return found


TWICE = "func @f(%x: f32[N,3]) -> f32[N,3] {\n  %0 = add %x, %x : f32[N,3]\n  return %0\n}\n"


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_entry_means_what_the_function_means(case: Case):
    found = build(case.module).entry()
    assert found is not None
    for arrays in case.calls:
        assert_same(found(*(np.asarray(a) for a in arrays)), case.module.run("f", *arrays))


class Sub(np.ndarray[Any, Any]):
    """A subclass, which may mean anything."""


def odd(x: Any) -> Any:
    """The same elements at an odd address."""
    room = np.empty(x.nbytes + 1, np.uint8)
    out = room[1:].view(x.dtype).reshape(x.shape)
    out[...] = x
    return out


X = np.arange(6, dtype=np.float32).reshape(2, 3)
UNUSUAL: dict[str, Any] = {
    "dtype": X.astype(np.float64),
    "bytes swapped": X.astype(">f4"),
    "rank": X.reshape(6),
    "rank 0": np.float32(1) + np.zeros((), np.float32),
    "shape": X.reshape(3, 2),
    "gaps": np.zeros((2, 6), np.float32)[:, ::2],
    "columns first": np.asfortranarray(X),
    "reversed": X[::-1],
    "odd": odd(X),
    "subclass": X.view(Sub),
    "list": X.tolist(),
    "scalar": np.float32(1),
    "float": 1.0,
    "None": None,
}


@pytest.mark.parametrize("x", UNUSUAL.values(), ids=UNUSUAL.keys())
def test_what_is_unusual_is_left_to_the_slow_path(x: Any):
    call = entry(TWICE)
    assert call(x) is NotImplemented
    assert_same(call(X), (X + X,))


def test_the_number_of_arguments_is_checked():
    call = entry(TWICE)
    assert call() is NotImplemented and call(X, X) is NotImplemented


def test_a_read_only_argument_is_read():
    x = X.copy()
    x.setflags(write=False)
    assert_same(entry(TWICE)(x), (X + X,))


@pytest.mark.parametrize("dtype", NUMBERS, ids=str)
def test_every_element_type_comes_in_and_goes_out(dtype: Any):
    call = entry(
        f"func @f(%x: {dtype}[3]) -> ({dtype}[3], {dtype}[1,3]) {{\n"
        f"  %0 = reshape %x shape=(1,3) : {dtype}[1,3]\n  return %x, %0\n}}\n"
    )
    x = np.array([0, 1, 1]).astype(dtype.numpy)
    a, b = call(x)
    assert a.dtype == b.dtype == dtype.numpy and b.shape == (1, 3) and b.strides[1] == x.itemsize
    assert a.tobytes() == b.tobytes() == x.tobytes() and not np.shares_memory(a, x)


SCALARS = """func @f(%x: f64, %n: i64, %p: bool, %y: f64[2]) -> (f64, i64, bool, f64[2]) {
  %0 = add %x, %x : f64
  %1 = add %n, %n : i64
  return %0, %1, %p, %y
}
"""


def test_python_numbers_are_taken_where_they_are_expected_and_nowhere_else():
    call = entry(SCALARS, float, int, bool, np.ndarray)
    y = np.ones(2)
    for x, n, p in ((1.5, 3, True), (-0.0, -1, False), (float("inf"), -(2**62), True)):
        a, b, c, d = call(x, n, p, y)
        assert (a, b, c) == (2 * x, 2 * n, p) and all(z.shape == () for z in (a, b, c))
        assert np.signbit(a) == np.signbit(x) and d.tolist() == [1, 1]
    wrong = [(1, 1, True), (1.0, 1.0, True), (1.0, True, True), (1.0, 1, 1), (1.0, 2**63, True)]
    assert [call(*w, y) for w in wrong] == [NotImplemented] * len(wrong)
    assert call(np.float64(1), 1, True, y) is NotImplemented
    assert call(np.array(1.0), 1, True, y) is NotImplemented
    assert sys.exc_info() == (None, None, None)


def test_a_bare_result_is_the_array_itself():
    found = entry(TWICE, bare=True)(X)
    assert type(found) is np.ndarray and np.array_equal(found, X + X)


EQUATIONS = """func @f(%a: f32[2*B+1,C], %b: f32[C,B], %c: f32[max(B,C)]) -> f32[B*C] {
  %0 = reshape %b shape=(B*C) : f32[B*C]
  return %0
}
"""


def test_sizes_are_bound_and_equations_are_checked():
    call = entry(EQUATIONS)

    def given(a: tuple[int, int], b: tuple[int, int], c: int) -> Any:
        return call(*(np.ones(s, np.float32) for s in (a, b, c)))

    for b, c in ((0, 0), (1, 1), (3, 2), (2, 7), (5, 0)):
        (found,) = given((2 * b + 1, c), (c, b), max(b, c))
        assert found.shape == (b * c,)
    wrong = [((6, 2), (2, 3), 3), ((7, 2), (3, 3), 3), ((7, 2), (2, 3), 2), ((7, 2), (2, 4), 4)]
    assert [given(*w) for w in wrong] == [NotImplemented] * len(wrong)


def test_the_row_of_sizes_is_what_python_computes():
    executable = built(EQUATIONS)
    assert bound_by(executable.interface) is not None
    sizes = row(executable.interface)
    import ctypes

    fill = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        executable.library.address("dlvm_sizes")
    )
    for b, c in ((0, 0), (1, 5), (17, 3), (2**20, 2**20)):
        given, found = np.array([b, c]), np.zeros(len(sizes), np.int64)
        names = dict(zip(executable.interface.symbols, (b, c), strict=True))
        fill(
            np.array([names[s] for s in executable.interface.symbols]).ctypes.data,
            found.ctypes.data,
        )
        assert found.tolist() == [evaluate(d, names) for d in sizes] and given.size == 2


def test_a_symbol_that_no_axis_tells_has_no_entry():
    executable = built("func @f(%x: f32[B], %y: f32[B*C]) -> f32[B*C] {\n  return %y\n}\n")
    assert executable.entry() is None
    x, y = np.ones(2, np.float32), np.ones(6, np.float32)
    assert_same(executable.run((x, y)), (y,))


def test_sizes_that_do_not_fit_in_a_word_are_left_to_python():
    executable = built(
        "func @f(%x: i8[N]) -> i8[N,N,N] {\n"
        "  %0 = broadcast %x shape=(N,N,N) axes=(2) : i8[N,N,N]\n  return %0\n}\n"
    )
    most = largest(executable.interface)
    assert 2**50 < most**3 < 2**62  # the time of the call is larger than its bytes
    call: Any = executable.entry()
    assert call(np.zeros(2 * most, np.int8)) is NotImplemented
    with pytest.raises(MemoryError):
        call(np.zeros(most, np.int8))
    assert_same(call(np.ones(2, np.int8)), (np.ones((2, 2, 2), np.int8),))


# -- donation --------------------------------------------------------------------------------------

STEP = """func @f(%w: f32[N] donated, %x: f32[N]) -> (f32, f32[N]) {
  %0 = mul %w, %x : f32[N]
  %1 = sum %0 axes=(0) : f32
  %2 = sub %w, %x : f32[N]
  return %1, %2
}
"""


def test_a_donated_array_is_the_result_where_nobody_else_sees_it():
    call = entry(STEP)
    w, x = np.full(5, 3, np.float32), np.ones(5, np.float32)
    total, out = call(w, x)
    assert total == 15 and out is w and w.tolist() == [2] * 5
    references = sys.getrefcount(w)
    for _ in range(3):
        call(w, x)
    assert sys.getrefcount(w) == references


def test_what_can_not_be_given_away_is_left_to_the_slow_path():
    call = entry(STEP)
    x, wide = np.ones(4, np.float32), np.arange(8, dtype=np.float32)
    frozen = x.copy()
    frozen.setflags(write=False)
    for w, y in ((x, x), (x, x[:]), (wide[:4], x), (frozen, x), (wide, wide[:8])):
        assert call(w, y) is NotImplemented
    assert x.tolist() == [1] * 4 and wide.tolist() == list(range(8))


# -- failure ---------------------------------------------------------------------------------------

PICK = """func @f(%x: f32[N], %i: i64) -> (f32[N], f32) {
  %0 = gather %x, %i axis=0 : f32
  %1 = add %x, %x : f32[N]
  return %1, %0
}
"""


def test_a_failed_call_raises_the_words_of_its_status_and_keeps_nothing():
    call = entry(PICK, np.ndarray, int)
    x = np.ones(4, np.float32)
    before = sys.getrefcount(x), sys.getrefcount(x.dtype)
    for _ in range(5):
        with pytest.raises(CallFailed) as found:
            call(x, 7)
        assert found.value.args[1:3] == (7, 4)
        del found
    assert (sys.getrefcount(x), sys.getrefcount(x.dtype)) == before


# -- memory ----------------------------------------------------------------------------------------


def address(x: Any) -> int:
    return int(x.ctypes.data)


def test_results_own_aligned_memory_that_is_used_again_when_they_die():
    call = entry(TWICE, bare=True)
    for rows in (0, 1, 7, 341, 100_000):
        x = np.ones((rows, 3), np.float32)
        first = call(x)
        second = call(x)
        assert first.flags.owndata and first.flags.writeable and first.base is None
        assert address(first) % 64 == 0 == address(second) % 64
        assert not np.shares_memory(first, second)
        gone = address(first)
        part = first[1:]
        del first
        gc.collect()
        assert address(call(x)) != gone or rows <= 1 or part.size == 0
        del part
        assert address(call(x)) == gone


def test_a_result_is_resized_and_viewed_like_any_array():
    call = entry(TWICE, bare=True)
    found = call(np.ones((100, 3), np.float32))
    found.resize((200, 3), refcheck=False)
    assert found[:100].tolist() == [[2] * 3] * 100 and not found[100:].any()
    found.resize((2, 3), refcheck=False)
    assert found.tolist() == [[2] * 3] * 2
    bytes_of = found.view(np.uint8)
    del found
    assert bytes_of.size == 24


def test_what_waits_in_the_pool_is_bounded(monkeypatch: pytest.MonkeyPatch):
    call = entry(TWICE, bare=True)
    made: Any = python_api.enter()
    pool = made.pool
    x = np.ones((16_000_000, 3), np.float32)
    kept = [call(x) for _ in range(3)]
    assert pool[0] <= blocks.KEEP
    kept.clear()
    gc.collect()
    assert 192_000_000 <= pool[0] <= blocks.KEEP
    kept = [call(x)]
    assert pool[0] <= blocks.KEEP - 192_000_000


def test_python_threads_share_the_pool():
    call = entry(TWICE, bare=True)
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[tuple[Any, Any]] = []
        for size in rng.integers(1, 30_000, 60):
            x = rng.standard_normal((size, 3)).astype(np.float32)
            kept = [*kept[-3:], (call(x), x)]
            if not all(np.array_equal(y, x + x) for y, x in kept):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == []


def test_an_entry_keeps_what_its_table_refers_to():
    call = entry(
        "func @f(%x: bf16[2]) -> bf16[2] {\n  %0 = constant value=[1.0, 2.0] : bf16[2]\n"
        "  %1 = add %x, %0 : bf16[2]\n  return %1\n}\n",
        bare=True,
    )
    gc.collect()
    rubbish = [np.full(n, 7, np.int64) for n in range(1, 200)]
    found = call(np.ones(2, ml_dtypes.bfloat16))
    assert found.astype(float).tolist() == [2, 3] and len(rubbish) == 199


def test_another_layout_of_objects_means_no_entry(monkeypatch: pytest.MonkeyPatch):
    assert python_api.layout_holds()
    for field in Field:
        monkeypatch.setattr(python_api, "LAYOUT", {**python_api.LAYOUT, field: field + 16})
        assert not python_api.layout_holds(), field
        monkeypatch.undo()
