"""What the one cost says that kernels take beside what they take, on one thread.

    python -m benchmarks.estimates [--rounds 7] [--measure] [--picture estimates.svg]

Each line is one kernel: its estimate and the median of its times, both in microseconds, and the
first over the second. Programs of more than one kernel are left out. The last line gives the median
error, which is how far most estimates are off, up or down: 1.5 means between 2/3 and 3/2. With
``--measure`` the machine is measured first, and nothing is kept; otherwise its values are those
that are kept or built in. ``--picture`` draws one point for each kernel.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.measured import known, measure
from dlvm.gen.program.control import to_program
from dlvm.gen.schedule.cost import time_of
from dlvm.target import Target

Call = Callable[..., Any]
SQUARE = ((64, 64), (320, 320), (1000, 1000), (3000, 2000))
ROWS = ((4096, 16), (512, 1000), (3, 200_000))
ELEMENTS: dict[str, Call] = {
    "add": lambda x: x + 1,
    "axpy": lambda x: x * 2 + x,
    "divide": lambda x: 1 / (x + 9),
    "root": lambda x: dlvm.sqrt(x * x),
    "exp": dlvm.exp,
    "log": lambda x: dlvm.log(x * x),
    "sin": dlvm.sin,
    "tanh chain": lambda x: dlvm.tanh(x * 2 + 1) * x,
    "gelu": lambda x: dlvm.nn.gelu(x),
    "where": lambda x: dlvm.where(x > 0, x, 0),
    "transposed": lambda x: x.T * 2,
    "stencil": lambda x: x[1:-1, 1:-1] * 4 - x[:-2, 1:-1] - x[2:, 1:-1],
    "roll": lambda x: dlvm.roll(x, 3, 1),
    "joined": lambda x: dlvm.concat([x, x * 2], 1),
}
FOLDS: dict[str, Call] = {
    "sum of rows": lambda x: x.sum(1),
    "sum of columns": lambda x: x.sum(0),
    "sum": lambda x: x.sum(),
    "variance of rows": lambda x: x.var(1),
    "largest of rows": lambda x: x.max(1),
    "place of the largest": lambda x: x.argmax(1),
    "softmax": lambda x: dlvm.nn.softmax(x, axis=-1),
    "softmax of columns": lambda x: dlvm.nn.softmax(x, axis=0),
    "logsumexp": lambda x: dlvm.logsumexp(x, axis=-1),
    "layer norm": lambda x: (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5),
    "running sum": lambda x: dlvm.cumulative_sum(x, axis=1),
    "sorted rows": lambda x: dlvm.sort(x, axis=1),
}
PRODUCTS = ((64, 64, 64), (320, 320, 320), (1000, 500, 700), (1, 1000, 1000), (8, 1000, 1000))
MOST_SORTED = 1 << 17
UNITS = ("0.1 us", "1 us", "10 us", "0.1 ms", "1 ms", "10 ms", "0.1 s")


@dataclass(frozen=True)
class Case:
    """A function and its arguments."""

    name: str
    function: Call
    arguments: tuple[Any, ...]


def cases() -> Iterator[Case]:
    """Every case that is raced."""
    dice = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return dice.standard_normal(shape, dtype=np.float32)

    for name, function in ELEMENTS.items():
        for shape in SQUARE:
            yield Case(f"{name} {shape}", function, (normal(*shape),))
    for name, function in FOLDS.items():
        for shape in (*ROWS, *SQUARE[1:3]):
            if "sort" not in name or math.prod(shape) <= MOST_SORTED:
                yield Case(f"{name} {shape}", function, (normal(*shape),))
    for m, k, n in PRODUCTS:
        yield Case(f"product {m}x{k}x{n}", lambda x, y: x @ y, (normal(m, k), normal(k, n)))
    yield Case("product of f64", lambda x, y: x @ y, (normal(300, 300).astype("f8"),) * 2)
    yield Case("elements of f64", dlvm.exp, (normal(1000, 300).astype("f8"),))
    yield Case("cast to f64", lambda x: dlvm.astype(x, dlvm.float64), (normal(1000, 300),))
    places = dice.integers(0, 1000, 5000)
    yield Case("rows gathered", lambda x: x[places], (normal(1000, 64),))


def measured(case: Case, target: Target, rounds: int) -> tuple[float, float] | None:
    """The estimate and the median time of a case, in seconds; None if it is not one kernel."""
    run = dlvm.function(case.function, threads=1).compile(*case.arguments)
    kernels = to_program(run.road.kernels).kernels()
    if len(kernels) != 1 or run.report.kernels != 1:
        return None
    cost = time_of(kernels[0], target)
    assert isinstance(cost, int)
    times: list[float] = []
    run(*case.arguments)
    count = max(1, int(0.005 / max(1e-7, _seconds(run, case.arguments, 1))))
    for _ in range(rounds):
        times.append(_seconds(run, case.arguments, count) / count)
    return cost * 1e-12, median(times)


def _seconds(run: Call, arguments: tuple[Any, ...], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run(*arguments)
    return time.perf_counter() - start


def main() -> None:
    """Prints a line for each kernel, and the median error."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    target = replace(known(Target.host()), threads=1)
    if options.measure:
        target = replace(target, measured=measure(Target.host()))
    print(target.machine)
    nothing = dlvm.function(lambda x: x + 1, threads=1).compile(np.zeros(1, np.float32))
    call = min(_seconds(nothing, (np.zeros(1, np.float32),), 1000) for _ in range(5)) / 1000
    rows: list[tuple[str, float, float]] = []
    print(f"{'kernel':34} {'estimate us':>12} {'time us':>12} {'ratio':>6}")
    for case in cases():
        found = measured(case, target, options.rounds)
        if found is not None:
            guess, took = found[0], max(1e-8, found[1] - min(call, found[1] / 2))
            rows.append((case.name, guess, took))
            print(f"{case.name:34} {guess * 1e6:12.2f} {took * 1e6:12.2f} {guess / took:6.2f}")
    errors = [math.exp(abs(math.log(guess / took))) for _, guess, took in rows]
    print(f"{len(rows)} kernels, median error {median(errors):.2f}, worst {max(errors):.1f}")
    if options.picture:
        options.picture.write_text(picture(rows))


def picture(rows: Sequence[tuple[str, float, float]]) -> str:
    """Estimates over times, both from 0.1 us to 100 ms, each ten times the last."""

    def place(seconds: float) -> float:
        return 60 + 90 * (math.log10(seconds) + 7)

    points = "".join(
        f'<circle cx="{place(took):.1f}" cy="{660 - place(guess):.1f}" r="4"><title>{name}</title>'
        "</circle>\n"
        for name, guess, took in rows
    )
    marks = "".join(
        f'<text x="{place(10.0**e):.0f}" y="625">{said}</text>'
        f'<text x="5" y="{665 - place(10.0**e):.0f}">{said}</text>\n'
        for e, said in zip(range(-7, 0), UNITS, strict=True)
    )
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" width="660" height="660" font-family="sans-serif" '
        f'font-size="12">\n<path d="M60 600H620M60 600V40M60 600L600 60" stroke="gray"/>\n{marks}'
        '<text x="250" y="650">time of a kernel</text><text x="70" y="35">estimate</text>\n'
        f'<g fill="#36c" fill-opacity="0.6">\n{points}</g></svg>\n'
    )


if __name__ == "__main__":
    main()
