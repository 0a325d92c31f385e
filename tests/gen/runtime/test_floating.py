"""The caller's floating-point mode changes no bit; it is back after a call and around Python."""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.runtime import floating, pool_code
from dlvm.target import Target

FLUSHING, DOWN, UP, TOWARDS_ZERO, ALL = 0x9FC0, 0x3F80, 0x5F80, 0x7F80, 0xFFC0
MODES = {
    "flushing": FLUSHING,
    "down": DOWN,
    "up": UP,
    "towards zero": TOWARDS_ZERO,
    "flushing, towards zero": ALL,
}
ON_X86 = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the test sets the control register of x86-64"
)
SETTER = """
define void @put(i32 %mode) {
  %at = alloca i32
  store i32 %mode, ptr %at
  call void @llvm.x86.sse.ldmxcsr(ptr %at)
  ret void
}
define i32 @get() {
  %at = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %at)
  %mode = load i32, ptr %at
  ret i32 %mode
}
declare void @llvm.x86.sse.ldmxcsr(ptr)
declare void @llvm.x86.sse.stmxcsr(ptr)
"""


@cache
def functions() -> tuple[Library, Callable[[int], None], Callable[[], int]]:
    library = Library(object_code(SETTER, Target.host()), Target.host())
    put = ctypes.CFUNCTYPE(None, ctypes.c_int)(library.address("put"))
    get = ctypes.CFUNCTYPE(ctypes.c_int)(library.address("get"))
    return library, put, get


def mode() -> int:
    return functions()[2]() & floating.REGISTERS["x86_64"].mask


@contextmanager
def in_mode(wanted: int) -> Iterator[None]:
    """A caller in another mode, which must be the same in the end."""
    _, put, _ = functions()
    before = mode()
    put(wanted)
    try:
        yield
        found = mode()
    finally:
        put(before)
    assert found == wanted & floating.REGISTERS["x86_64"].mask


RNG = np.random.default_rng(0)
TINY = RNG.normal(size=(400, 500)) * 10.0 ** RNG.integers(-312, 1, (400, 500))
X, Y = RNG.normal(size=(130, 140)), RNG.normal(size=(140, 150)) * 1e-160


def summed(x: Any) -> Any:
    return dlvm.scan(lambda c, row: (c * 0.5 + row, c.sum()), x[0], x)[1]


def halved(x: Any) -> Any:
    return dlvm.while_loop(lambda s: s[1] < 40, lambda s: (s[0] / 3.0, s[1] + 1), (x, 0))[0]


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "elements": (lambda x: dlvm.exp(x * 0.3) / 3.0 + x, (TINY,)),
    "denormals": (lambda x: x * 0.5, (TINY,)),
    "rows": (lambda x: dlvm.nn.softmax(x), (TINY,)),
    "sums": (lambda x: (x / 3.0).sum(), (TINY,)),
    "columns": (lambda x: (x / 3.0).mean(0), (TINY,)),
    "halves": (lambda x: x.astype("float16") * 0.3, (TINY.astype("f4"),)),
    "products": (lambda x, y: x @ y, (X, Y)),
    "small products": (lambda x, y: x @ y, (X[:3], Y[:, :5])),
    "running sums": (lambda x: dlvm.cumulative_sum(x, axis=1), (TINY,)),
    "orders": (lambda x: dlvm.sort(x, axis=1), (TINY,)),
    "loops": (summed, (TINY,)),
    "open loops": (halved, (TINY,)),
    "gradients": (dlvm.grad(lambda x: (dlvm.tanh(x) ** 2 / 3.0).sum()), (TINY,)),
    "random numbers": (lambda k: dlvm.random.normal(k, (1000,)), (dlvm.random.key(3),)),
}


@pytest.mark.drawn(3)
@ON_X86
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_mode_changes_a_bit(name: str, threads: int):
    f, args = PROGRAMS[name]
    staged = dlvm.function(f, threads=threads)
    expected = staged(*args).tobytes()
    for wanted in MODES.values():
        with in_mode(wanted):
            found = [staged(*args).tobytes() for _ in range(3)]
        assert found == [expected] * 3


@ON_X86
@pytest.mark.parametrize("wanted", MODES.values(), ids=MODES)
def test_what_is_compiled_or_computed_by_references_is_the_same(wanted: int):
    def f(x: Any) -> Any:
        return x * 0.1 + dlvm.exp(dlvm.asarray(0.1)) * 1e-310 / 3.0

    expected, plain = dlvm.function(f)(TINY), f(TINY)
    module = dlvm.trace(f, TINY)
    (by_references,) = module.run("f", TINY)
    with in_mode(wanted):
        found, again, interpreted = dlvm.function(f)(TINY), f(TINY), module.run("f", TINY)[0]
    assert found.tobytes() == expected.tobytes()
    assert interpreted.tobytes() == by_references.tobytes()
    if isinstance(again, np.ndarray):
        assert np.asarray(dlvm.exp(TINY)).shape == plain.shape


@ON_X86
def test_an_unstaged_call_is_the_same():
    expected = dlvm.exp2(TINY - 1030.0)
    with in_mode(FLUSHING):
        found = dlvm.exp2(TINY - np.float64(1030.0))
    assert found.tobytes() == expected.tobytes()


@ON_X86
def test_the_caller_has_its_mode_again_where_a_call_fails():
    f = dlvm.function(lambda x, i: x[i] / 3.0)
    assert f(TINY, 1).shape == (500,)
    for _ in range(2):
        with in_mode(ALL), pytest.raises(dlvm.IndexOutOfRange):
            f(TINY, 1000)


@ON_X86
def test_python_runs_in_the_mode_of_the_caller():
    seen: list[int] = []

    class Watch(list[Any]):
        def append(self, item: Any) -> None:
            seen.append(mode())
            super().append(item)

    f = dlvm.function(lambda x: dlvm.tap(x * 0.5, "x") * 0.5)
    expected = f(TINY).tobytes()
    for wanted in (0x1F80, *MODES.values()):
        with in_mode(wanted), dlvm.taps() as found:
            found["x"] = Watch()
            out = f(TINY)
        assert out.tobytes() == expected
        assert seen[-1:] == [wanted]


def test_each_processor_has_code_for_it():
    use = "define void @f(ptr %context) #0 {\n  call void @mode_return(ptr %context)\n  ret void\n}"
    for triple in (
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "wasm32-unknown-unknown",
    ):
        cpu = "x86-64" if triple.startswith("x86") else "generic"
        text = f"{floating.functions(triple)}\n{use}\nattributes #0 = {{ nounwind }}\n"
        assert object_code(text, Target(triple, cpu, "", 128, 32, 1), jit=False)


@pytest.mark.parametrize("how", pool_code.SYSTEMS.values(), ids=pool_code.SYSTEMS)
def test_every_word_of_the_pool_is_accessed_atomically(how: pool_code.System):
    text = pool_code.code(how, "", "nounwind")
    accesses = re.findall(r"^.*\b(?:load|store)\b.*$", text, re.M)
    assert len(accesses) > 30
    assert [line for line in accesses if "atomic" not in line] == []


@pytest.mark.parametrize("word", ["LEFT", "HALT"])
def test_what_threads_share_of_a_call_is_accessed_atomically(word: str):
    from dlvm.gen.runtime import call_words

    f = dlvm.function(lambda x, y: dlvm.sort(x @ y, axis=1) * 2.0, threads=2)
    text = f.compile(np.ones((400, 400)), np.ones((400, 400))).text("llvm")
    index = getattr(call_words, word)
    found = 0
    for function in text.split("\ndefine ")[1:]:
        for name in re.findall(
            rf"(%\S+) = getelementptr i64, ptr %context, i64 {index}\n", function
        ):
            lines = re.findall(rf"^.*\b(?:load|store) .*ptr {re.escape(name)}\b.*$", function, re.M)
            assert [line for line in lines if "atomic" not in line] == []
            found += len(lines)
    assert found
