"""What this machine can do at most, measured: multiply-adds, and bytes to and from memory.

A benchmark's ratio to such a floor says how much is left to gain. Both are measured with code
of a few instructions that does nothing else: independent chains of fma in registers, and loops
that read and write arrays much larger than the caches. Threads are Python's, as the code runs
without Python's lock.

    python -m benchmarks.floors
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np

from dlvm.gen.llvm.binding import Library, object_code
from dlvm.ir import F32, F64, DType
from dlvm.target import Target

CHAINS = 16
TURNS = 200_000
LARGE = 1 << 27
"""Bytes of an array in memory; larger than caches are."""
WORDS = {"f32": "float", "f64": "double"}


class Peak:
    """Floating-point operations in a second, of all threads; an fma counts two.

    One thread's time is the processor's, or with ``clock`` the clock's, as that of several is; that
    of a longer run, beside which it counts little how long Python takes to wake its threads.
    """

    def __init__(self, dtype: DType, threads: int = 1, clock: bool = False) -> None:
        run = _function("peak", _peak(dtype), [ctypes.c_void_p, ctypes.c_int64])
        outputs = [np.zeros(CHAINS * 64) for _ in range(threads)]
        turns = TURNS * (8 if clock else 1)
        self._calls = [lambda out=out: run(out.ctypes.data, turns) for out in outputs]
        self._clock = clock
        self._operations = 2 * CHAINS * Target.host().lanes(dtype.bytes) * turns * threads

    def __call__(self, rounds: int = 1) -> float:
        """The best of some rounds."""
        return self._operations / _shortest(self._calls, rounds, self._clock)


@cache
def fma_peak(dtype: DType, threads: int = 1) -> float:
    """The best of many rounds."""
    return Peak(dtype, threads)(50)


@cache
def bandwidth(kind: str = "copy", threads: int = 1) -> float:
    """Bytes in a second that a ``copy`` reads and writes, or that a ``read`` reads."""
    types = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    run = _function(kind, _copy() if kind == "copy" else _read(), types)
    part = LARGE // threads // 256 * 256
    x, y = np.ones(LARGE // 8), np.ones(LARGE // 8)
    calls = [
        lambda i=i: run(x.ctypes.data + i * part, y.ctypes.data + i * part, part // 8)
        for i in range(threads)
    ]
    return part * threads * (2 if kind == "copy" else 1) / _shortest(calls)


def _shortest(calls: list[Callable[[], None]], rounds: int = 7, clock: bool = False) -> float:
    """Seconds of the best of several rounds, in which all calls run at once.

    Of one call the processor's time, which does not count what else the machine does meanwhile.
    """
    times: list[float] = []
    if len(calls) == 1 and not clock:
        for _ in range(rounds):
            start = time.thread_time()
            calls[0]()
            times.append(time.thread_time() - start)
        return min(times)
    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(time.sleep, [1e-3] * len(calls)))  # starts the threads
        for _ in range(rounds):
            start = time.perf_counter()
            for done in [pool.submit(call) for call in calls]:
                done.result()
            times.append(time.perf_counter() - start)
    return min(times)


_libraries: list[Library] = []


def _function(name: str, text: str, types: list[type]) -> Callable[..., None]:
    target = Target.host()
    library = Library(object_code(text, target), target)
    _libraries.append(library)  # its code goes when it goes
    return ctypes.CFUNCTYPE(None, *types)(library.address(name))


def _whole(signature: str, code: str) -> str:
    target = Target.host()
    attributes = f'"target-cpu"="{target.cpu}" "target-features"="{target.features}"'
    attributes += ' "prefer-vector-width"="512"'
    return f"define void {signature} nounwind {attributes} {{\n{code}\n  ret void\n}}\n"


def _loop(body: list[str], phis: list[str], step: int) -> str:
    lines = [
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *phis,
        *body,
        f"  %next = add i64 %i, {step}",
        "  %more = icmp slt i64 %next, %n",
        "  br i1 %more, label %loop, label %end",
        "end:",
    ]
    return "\n".join(lines)


def _peak(dtype: DType) -> str:
    lanes = Target.host().lanes(dtype.bytes)
    element = WORDS[str(dtype)]
    vector, suffix = f"<{lanes} x {element}>", f"v{lanes}{dtype}"
    fma = f"llvm.fma.{suffix}"
    half = f"splat ({element} 5.0e-01)"
    phis = [
        f"  %c{k} = phi {vector} [splat ({element} {k}.0), %entry], [%d{k}, %loop]"
        for k in range(CHAINS)
    ]
    body = [
        f"  %d{k} = call {vector} @{fma}({vector} %c{k}, {vector} {half}, {vector} {half})"
        for k in range(CHAINS)
    ]
    stores = [
        f"  %p{k} = getelementptr {vector}, ptr %out, i64 {k}\n"
        f"  store {vector} %d{k}, ptr %p{k}, align 8"
        for k in range(CHAINS)
    ]
    declared = f"declare {vector} @{fma}({vector}, {vector}, {vector})"
    code = "\n".join((_loop(body, phis, 1), *stores))
    return f"{declared}\n{_whole('@peak(ptr %out, i64 %n)', code)}"


def _copy() -> str:
    body = [
        f"  %at{k} = add i64 %i, {8 * k}\n"
        f"  %from{k} = getelementptr double, ptr %x, i64 %at{k}\n"
        f"  %to{k} = getelementptr double, ptr %y, i64 %at{k}\n"
        f"  %v{k} = load <8 x double>, ptr %from{k}, align 8\n"
        f"  store <8 x double> %v{k}, ptr %to{k}, align 8"
        for k in range(4)
    ]
    code = _loop(body, [], 32)
    return _whole("@copy(ptr noalias %x, ptr noalias %y, i64 %n)", code)


def _read() -> str:
    phis = [
        f"  %s{k} = phi <8 x double> [zeroinitializer, %entry], [%t{k}, %loop]" for k in range(4)
    ]
    body = [
        f"  %at{k} = add i64 %i, {8 * k}\n"
        f"  %from{k} = getelementptr double, ptr %x, i64 %at{k}\n"
        f"  %v{k} = load <8 x double>, ptr %from{k}, align 8\n"
        f"  %t{k} = fadd <8 x double> %s{k}, %v{k}"
        for k in range(4)
    ]
    stores = [f"  store <8 x double> %t{k}, ptr %y, align 8" for k in range(4)]
    code = "\n".join((_loop(body, phis, 32), *stores))
    return _whole("@read(ptr %x, ptr %y, i64 %n)", code)


def main() -> None:
    """Print every floor, for one thread and for all."""
    most = Target.host().threads
    print(f"{Target.host()}\n{'threads':24}" + "".join(f"{t:>10}" for t in sorted({1, most})))
    rows: dict[str, Callable[[int], float]] = {
        "f32 fma, GFLOP/s": lambda t: fma_peak(F32, t) / 1e9,
        "f64 fma, GFLOP/s": lambda t: fma_peak(F64, t) / 1e9,
        "copy in memory, GB/s": lambda t: bandwidth("copy", t) / 1e9,
        "read in memory, GB/s": lambda t: bandwidth("read", t) / 1e9,
    }
    for name, measure in rows.items():
        print(f"{name:24}" + "".join(f"{measure(t):10.1f}" for t in sorted({1, most})))


if __name__ == "__main__":
    main()
