"""Matrix products beside the peak of fused multiply-adds and beside NumPy, rounds taken in turn.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.products [--threads 1] [--dtype f32] [--skinny]
    python -m benchmarks.products --gain [--threads 2]

For each shape and transposition: percent of the peak that independent chains of fma reach in the
same round, and NumPy's time over ours (above 1, ours is faster); of all rounds the one that nine
tenths do not reach, and the median. A round is short and holds one measurement of each, so that a
clock that falls, or a neighbour on the same core, slows down all alike; with one thread it is the
processor's time that is taken, not the clock's. Ours is timed inside of machine code, as it is
when a program calls it; NumPy's includes its call, some 0.5 us. Results are compared with NumPy's
first. NumPy's BLAS must have as many threads: set the variable to the same number.

``--gain`` asks what threads gain where the machine lets them gain anything: each round holds the
peak of one thread and of several, and the product of one and of several, by the clock. Two cores
of a virtual machine may be halves of one, so a product's gain is held against the peak's. Workers
are awake when they are timed: one that has slept for milliseconds takes 0.1 ms to come.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.floors import Peak
from dlvm.gen.llvm.binding import Library, object_code
from dlvm.gen.lower.products import TILE
from dlvm.gen.products.objects import Generic, use
from dlvm.gen.products.panels import WORDS
from dlvm.gen.runtime import call_words, pool
from dlvm.gen.text.module import Text, attributes
from dlvm.ir import F32, F64, Array, DType
from dlvm.target import Target

SQUARES = [(n, n, n) for n in (64, 128, 256, 512, 1024, 2048)]
SKINNY = [
    (1, 2048, 2048),
    (8, 2048, 2048),
    (2048, 1, 2048),
    (2048, 8, 2048),
    (4, 1024, 1024),
    (16, 1024, 1024),
    (32, 512, 512),
    (128, 10, 784),
    (128, 784, 10),
    (10000, 16, 16),
    (1024, 1024, 8),
    (8, 8, 65536),
    (64, 256, 784),
    (50000, 64, 32),
]
KINDS = {"A B": (False, False), "A' B": (True, False), "A B'": (False, True), "A' B'": (True, True)}
ROUNDS = 41
SECONDS = 0.003
"""About how long one timing of a round takes."""


@dataclass(frozen=True)
class Timed:
    """Our product, called many times in machine code."""

    dtype: DType
    transposed: tuple[bool, bool]
    threads: int

    def __post_init__(self) -> None:
        target = Target.host()
        text = Text(attributes(target))
        height, bytes_ = TILE
        width = bytes_ // self.dtype.bytes
        name = use(text, Generic(self.dtype, *self.transposed, height, width), target)
        text.functions["repeat"] = f"""
define void @repeat(ptr %context, ptr %call, i64 %times) #0 {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @{name}(ptr %context, ptr %call)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %times
  br i1 %more, label %loop, label %end
end:
  ret void
}}"""
        library = Library(object_code(str(text), target), target, *text.others())
        address = library.address("repeat")
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)
        object.__setattr__(self, "_library", library)
        object.__setattr__(self, "_repeat", call)

    def prepare(self, x: Array, y: Array, out: Array) -> Callable[[int], None]:
        """The product of these arrays as they lie in memory, so many times."""
        m, n = out.shape
        k = x.shape[0] if self.transposed[0] else x.shape[1]
        facts = dict(m=m, n=n, k=k, x=x.ctypes.data, y=y.ctypes.data, out=out.ctypes.data)
        steps = {"x.step": x.shape[1], "y.step": y.shape[1], "out.step": n}
        context = np.zeros(call_words.WORDS, np.int64)
        facts["context"] = context.ctypes.data
        call = np.array([{**facts, **steps}.get(word, 0) for word in WORDS], np.int64)
        context[call_words.POOL] = pool.address(self.threads)
        context[call_words.THREADS] = self.threads
        return lambda times: self._repeat(context.ctypes.data, call.ctypes.data, times)  # type: ignore


def seconds(run: Callable[[int], None], times: int, threads: int) -> float:
    """Of one of so many."""
    now = time.thread_time if threads == 1 else time.perf_counter
    start = now()
    run(times)
    return (now() - start) / times


@dataclass(frozen=True)
class Operands:
    """Matrices for one shape as they lie in memory, and room for the product."""

    x: Array
    y: Array
    out: Array

    @staticmethod
    def of(ours: Timed, shape: tuple[int, int, int]) -> Operands:
        """Random ones."""
        (m, n, k), (x_t, y_t), kind = shape, ours.transposed, ours.dtype.numpy
        rng = np.random.default_rng(0)
        x = rng.normal(size=(k, m) if x_t else (m, k)).astype(kind)
        y = rng.normal(size=(n, k) if y_t else (k, n)).astype(kind)
        return Operands(x, y, np.empty((m, n), kind))

    def numpy(self, ours: Timed) -> Callable[[int], None]:
        """NumPy's product of them so many times; ours must agree with it."""
        x_t, y_t = ours.transposed
        a, b = self.x.T if x_t else self.x, self.y.T if y_t else self.y
        expected = np.empty_like(self.out)

        def theirs(times: int) -> None:
            for _ in range(times):
                np.matmul(a, b, out=expected)

        ours.prepare(self.x, self.y, self.out)(1)
        theirs(1)
        kind = self.out.dtype
        rtol, atol = (1e-3 if kind == np.float32 else 1e-9), a.shape[1] * np.finfo(kind).eps
        np.testing.assert_allclose(self.out, expected, rtol=rtol, atol=atol)
        return theirs


def measure(ours: Timed, shape: tuple[int, int, int]) -> list[tuple[float, float, float]]:
    """Each round: the peak, seconds of ours and of NumPy's."""
    given = Operands.of(ours, shape)
    theirs, run = given.numpy(ours), ours.prepare(given.x, given.y, given.out)
    once = seconds(theirs, 1, ours.threads)
    times = max(1, int(SECONDS / max(once, 1e-7)))
    peak = Peak(ours.dtype, ours.threads)
    return [
        (peak(), seconds(run, times, ours.threads), seconds(theirs, times, ours.threads))
        for _ in range(ROUNDS)
    ]


def gains(one: Timed, several: Timed, shape: tuple[int, int, int]) -> list[tuple[float, float]]:
    """Each round: how often faster several threads are than one, in the product and at the peak."""
    given = Operands.of(one, shape)
    given.numpy(one)
    runs = [t.prepare(given.x, given.y, given.out) for t in (one, several)]
    peaks = [Peak(one.dtype, t.threads, clock=True) for t in (one, several)]
    times = max(1, int(SECONDS / max(seconds(runs[0], 1, 2), 1e-7)))
    found: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        runs[1](1)  # wakes the workers, which sleep while one thread is timed
        together, alone = (seconds(run, times, 2) for run in reversed(runs))
        low, high = (peak() for peak in peaks)
        found.append((alone / together, high / low))
    return found


def report_gains(
    dtype: DType, name: str, threads: int, shapes: Sequence[tuple[int, int, int]]
) -> None:
    """One line for each shape: medians of the gains and of their ratio, then its upper tenth."""
    one, several = (Timed(dtype, KINDS[name], n) for n in (1, threads))
    for m, n, k in shapes:
        rounds = gains(one, several, (m, n, k))
        columns = [[mine for mine, _ in rounds], [peak for _, peak in rounds]]
        columns.append([mine / peak for mine, peak in rounds])
        mine, peak, ratio = (sorted(c)[len(c) // 2] for c in columns)
        best = sorted(columns[2])[int(0.9 * len(rounds))]
        print(
            f"{dtype} {name:6} {m:>6}x{n}x{k:<6}  product x{mine:.2f}  peak x{peak:.2f}"
            f"  {ratio:6.1%} of the peak's gain, upper tenth {best:6.1%}",
            flush=True,
        )


def report(ours: Timed, name: str, shapes: Sequence[tuple[int, int, int]]) -> None:
    """One line for each shape."""
    for m, n, k in shapes:
        rounds, flops = measure(ours, (m, n, k)), 2 * m * n * k
        line = f"{ours.dtype} {name:6} {m:>6}x{n}x{k:<6}"
        shares = [flops / mine / peak for peak, mine, _ in rounds]
        ratios = [theirs / mine for _, mine, theirs in rounds]
        for rank in (0.9, 0.5):
            share, ratio = (sorted(of)[int(rank * len(of))] for of in (shares, ratios))
            line += f"  {share:6.1%} of peak, {ratio:5.2f} of NumPy"
        best, peak = flops / min(r[1] for r in rounds) / 1e9, max(r[0] for r in rounds) / 1e9
        print(f"{line}  {best:7.1f} of {peak:.1f} GFLOP/s", flush=True)


def main() -> None:
    """Every kind of every shape."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["f32", "f64"], nargs="+", default=["f32", "f64"])
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS))
    parser.add_argument("--skinny", action="store_true")
    parser.add_argument("--gain", action="store_true", help="several threads beside one")
    options = parser.parse_args()
    if not options.gain and os.environ.get("OPENBLAS_NUM_THREADS") != str(options.threads):
        parser.error(f"set OPENBLAS_NUM_THREADS={options.threads}, so that NumPy has as many")
    shapes = SKINNY if options.skinny else SQUARES
    if options.sizes:
        shapes = [(n, n, n) for n in options.sizes]
    threads = max(2, options.threads)
    if not options.gain:
        print("upper tenth of the rounds, then medians; best GFLOP/s of ours and of the peak")
    for dtype in (F32, F64):
        for name in options.kinds if str(dtype) in options.dtype else ():
            if options.gain:
                report_gains(dtype, name, threads, shapes)
                continue
            report(Timed(dtype, KINDS[name], options.threads), name, shapes)


if __name__ == "__main__":
    main()
