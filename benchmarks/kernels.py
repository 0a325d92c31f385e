"""Element-wise chains, rows and sums beside NumPy and beside what memory allows.

    python -m benchmarks.kernels [word ...]     only cases whose name has one of these words

Every result is checked before anything is timed. Contenders take turns, and the best of many
rounds counts, so what else the machine does disturbs all alike. The floor is the time that the
bytes of arguments and results alone would take, by the bandwidth of ``floors`` in this process;
arrays that fit into caches may be faster than that. Where each element takes an exponential, its
time is also told beside that of the exponentials alone, of numbers in a cache.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import dlvm

from .floors import bandwidth

ROUNDS = 15
THREADS = (1, 2)
SIZES = (100_000, 1_000_000, 16_000_000)
CACHED = (4096, 64)
"""Numbers that stay in the nearest cache, and how often each is added to another."""
ROWS = ((4096, 1024), (65536, 64), (262144, 16), (128, 32768))
Call = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A function that runs on plain arrays as well, and its arguments."""

    name: str
    function: Call
    arguments: tuple[Any, ...]

    @property
    def expected(self) -> np.ndarray[Any, Any]:
        """The result, by NumPy in f64."""
        with np.errstate(all="ignore"):
            return np.asarray(self.function(*(a.astype(np.float64) for a in self.arguments)))


@dataclass(frozen=True)
class Measured:
    """The best time of each contender and the floors, in ns for each element of the argument.

    ``exponentials`` is how long these alone take one thread, 0 where there are none.
    """

    case: Case
    times: Mapping[str, float]
    floors: Mapping[str, float]
    exponentials: float


def axpy(x: Any, y: Any) -> Any:
    return 2 * x + y


def chain(x: Any, y: Any) -> Any:
    return np.tanh(x) * y + 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def logsumexp(x: Any) -> Any:
    top = x.max(axis=-1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=-1)) + top[..., 0]


def exponentials(x: Any, y: Any) -> Any:
    return np.exp(x + y[:, None]).sum(axis=-1)


def total(x: Any) -> Any:
    return x.sum()


def columns(x: Any) -> Any:
    return x.sum(axis=0)


def plus_transposed(x: Any, y: Any) -> Any:
    return x + y.T


def cases() -> Iterator[Case]:
    """Chains of three sizes and two types, rows of four widths, sums, a transposition."""
    for dtype in ("f32", "f64"):
        for size in SIZES:
            for f in (axpy, chain):
                yield Case(f"{f.__name__} {dtype} {size}", f, _normal(dtype, (size,), 2))
    for shape in ROWS:
        for f in (softmax, layer_norm, logsumexp):
            yield Case(f"{f.__name__} f32 {_by(shape)}", f, _normal("f32", shape, 1))
    yield Case("total f32 16000000", total, _normal("f32", (SIZES[-1],), 1))
    yield Case("columns f32 4096x1024", columns, _normal("f32", ROWS[0], 1))
    for n in (256, 1024, 2048):
        yield Case(f"plus_transposed f32 {n}x{n}", plus_transposed, _normal("f32", (n, n), 2))


def _normal(dtype: str, shape: tuple[int, ...], count: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    kind = np.float32 if dtype == "f32" else np.float64
    return tuple(rng.standard_normal(shape).astype(kind) for _ in range(count))


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def measure(case: Case, rounds: int = ROUNDS) -> Measured:
    """Check each contender, then time them in turns."""
    contenders: dict[str, Call] = {"numpy": case.function}
    contenders |= {f"dlvm {n}": dlvm.function(threads=n)(case.function) for n in THREADS}
    tolerance = 1e-4 if case.arguments[0].dtype == np.float32 else 1e-12
    for call in contenders.values():
        np.testing.assert_allclose(call(*case.arguments), case.expected, tolerance, tolerance * 10)
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, call in contenders.items():
            start = time.perf_counter()
            call(*case.arguments)
            best[name] = min(best[name], time.perf_counter() - start)
    each = 1e9 / case.arguments[0].size
    times = {name: seconds * each for name, seconds in best.items()}
    floors = {f"dlvm {n}": floor(case, n) * each for n in THREADS}
    exponentials = exponential() * 1e9 if case.function in (softmax, logsumexp) else 0.0
    return Measured(case, times, floors, exponentials)


@cache
def exponential() -> float:
    """Seconds that one exponential of an f32 takes a thread, of sums that stay in its cache."""
    x, y = (np.linspace(-5, 0, n, dtype=np.float32) for n in CACHED)
    run: Call = dlvm.function(threads=1)(exponentials)
    best = float("inf")
    for _ in range(10 * ROUNDS):
        start = time.perf_counter()
        run(x, y)
        best = min(best, time.perf_counter() - start)
    return best / (x.size * y.size)


def floor(case: Case, threads: int) -> float:
    """Seconds that the bytes take: those of a copy, or of reading where little is written."""
    read = sum(a.nbytes for a in case.arguments)
    written = case.expected.size * case.arguments[0].itemsize
    if written < read // 16:
        return read / bandwidth("read", threads)
    return (read + written) / bandwidth("copy", threads)


def main() -> None:
    names = sys.argv[1:]
    print(f"{'ns for each element':32}{'numpy':>9}" + "".join(_head(n) for n in THREADS))
    for case in cases():
        if names and not any(word in case.name for word in names):
            continue
        found = measure(case)
        line = f"{case.name:32}{found.times['numpy']:9.3f}"
        for n in THREADS:
            took, least = found.times[f"dlvm {n}"], found.floors[f"dlvm {n}"]
            line += f"{took:9.3f}{took / least:8.2f}{found.times['numpy'] / took:8.2f}"
            line += f"{took * n / found.exponentials:7.2f}" if found.exponentials else " " * 7
        print(line, flush=True)


def _head(threads: int) -> str:
    return f"{f'{threads} thr.':>9}{'/floor':>8}{'numpy/':>8}{'/exp':>7}"


if __name__ == "__main__":
    main()
