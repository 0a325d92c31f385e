"""Random programs that take views, write into some and read all: staged, and by NumPy.

python -m tests.dsl.arrays.views 50000 [--seed 7]

Each program is Python source that takes views of arrays and of one another, computes with some, and
assigns. It runs on NumPy's arrays and on staged ones; contents, strides and what may be assigned
into must agree. A program that fails is printed without the lines that it fails without.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import dlvm
from dlvm.dsl.trace.tensor import READ_ONLY

Rng = np.random.Generator
Shape = tuple[int, ...]
LINES = 14
MOST = 200
"""Elements of the largest array; a line that makes a larger one is left out."""


@dataclass(frozen=True)
class Program:
    """Lines of source about the arguments ``x`` and ``y``, and the shapes of these."""

    shapes: tuple[Shape, Shape]
    lines: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"x, y of shapes {self.shapes}", *self.lines])

    def arguments(self) -> tuple[Any, Any]:
        """Arrays whose elements are all different."""
        x, y = (np.arange(float(np.prod(s))).reshape(s) for s in self.shapes)
        return x, 100 - y

    def by_numpy(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The variables at the end, and how they lie."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", FutureWarning)  # a write that broadcast_arrays warns of
            found = self.function(np)(*self.arguments())
            return found, {n: lies(a, writable(a)) for n, a in found.items()}

    def function(self, xp: Any) -> Callable[[Any, Any], dict[str, Any]]:
        """The variables at the end, as a function of the arguments."""
        space: dict[str, Any] = {"np": np, "xp": xp}
        exec("\n    ".join(["def program(x, y):", *self.lines, "return locals()"]), space)
        return space["program"]

    def staged(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The same by the module that a trace writes."""
        facts: dict[str, Any] = {}
        function = self.function(dlvm)

        def program(x: Any, y: Any) -> list[Any]:
            found = function(x, y)
            facts.update({n: lies(a, a.held != READ_ONLY) for n, a in found.items()})
            return list(found.values())

        module = dlvm.trace(program, *self.arguments())
        found = module.run(module.main.name, *self.arguments())
        return dict(zip(facts, found, strict=True)), facts

    def failure(self) -> str | None:
        """What differs between both, if anything does."""
        expected, lie = self.by_numpy()
        try:
            found, facts = self.staged()
        except dlvm.UserError as error:
            return f"{type(error).__name__}: {error}"
        for name in expected:
            if not np.array_equal(found[name], expected[name], equal_nan=True):
                return f"{name} is {found[name]}, expected {expected[name]}"
            if facts[name] != lie[name]:
                return f"{name} lies as {facts[name]}, expected {lie[name]}"
        return None

    def reduced(self) -> Program:
        """A part that fails too, of which every line is needed."""
        at = len(self.lines)
        program = self
        while at:
            at -= 1
            less = replace(program, lines=(*program.lines[:at], *program.lines[at + 1 :]))
            try:
                program = less if less.failure() else program
            except Exception:  # a line that others need
                continue
        return program


def writable(a: Any) -> bool:
    """Whether an array of NumPy's may be assigned into without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        try:
            return not isinstance(a, np.generic) and a.flags.writeable
        except FutureWarning:
            return False


def lies(a: Any, writable: bool) -> Any:
    """The strides along axes of two elements or more, and whether it may be assigned into."""
    if not a.ndim:
        return ()
    steps = [s for d, s in zip(a.shape, a.strides, strict=True) if d != 1]
    return (steps if 0 not in a.shape else [], writable)


# -- drawing ---------------------------------------------------------------------------------------


def draw(seed: int) -> Program:
    """A program of a seed."""
    rng = np.random.default_rng(seed)
    drawing = Drawing(rng)
    while len(drawing.program.lines) < LINES:
        drawing.add()
    return drawing.program


@dataclass
class Drawing:
    """A program that is being drawn, line by line: a line stays if NumPy runs it."""

    rng: Rng
    program: Program = field(init=False)
    known: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        shapes = [
            tuple(int(d) for d in self.rng.choice([1, 2, 3, 4], int(self.rng.integers(1, 4))))
            for _ in "xy"
        ]
        self.program = Program((shapes[0], shapes[1]), ("v0 = x * 1", "v1 = y.copy()"))
        self.known = self.program.by_numpy()[0]

    def add(self) -> None:
        """One more line, if NumPy runs it."""
        kind = (
            WRITES if self.rng.random() < 0.35 else RESULTS if self.rng.random() < 0.25 else VIEWS
        )
        name = str(self.rng.choice(list(self.known)))
        a = self.known[name]
        line = kind[int(self.rng.integers(len(kind)))](self.rng, name, a)
        if kind is not WRITES:
            line = f"v{len(self.program.lines)} = {line}"
        elif not (writable(a) and a.size) or any(
            np.may_share_memory(a, self.known[n]) for n in "xy"
        ):
            return
        if self._runs(line):
            self.program = replace(self.program, lines=(*self.program.lines, line))
        else:
            self.known = self.program.by_numpy()[0]

    def _runs(self, line: str) -> bool:
        """Whether NumPy runs a line after the others, and makes no large array."""
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("error", FutureWarning)
            try:
                exec(line, {"np": np, "xp": np}, self.known)
            except (ValueError, TypeError, IndexError, AttributeError, FutureWarning):
                return False
        return all(v.size <= MOST for v in self.known.values())


def index_of(rng: Rng, shape: Shape) -> str:
    """A basic index: integers, slices, new axes and an ellipsis."""
    items = [_item(rng, d) for d in shape[: int(rng.integers(0, len(shape) + 1))]]
    if rng.random() < 0.25:
        items.insert(int(rng.integers(0, len(items) + 1)), "None")
    if not items or rng.random() < 0.25:
        items.insert(int(rng.integers(0, len(items) + 1)), "...")
    return ", ".join(items)


def _item(rng: Rng, size: int) -> str:
    if size and rng.random() < 0.3:
        return str(int(rng.integers(-size, size)))
    ends = ("" if rng.random() < 0.5 else str(int(rng.integers(-size - 1, size + 2))) for _ in "ab")
    return f"{':'.join(ends)}:{rng.choice([1, 1, 2, -1, -2])}"


def shape_of(rng: Rng, size: int) -> Shape:
    """Sizes, a 1 among them perhaps, whose product is given."""
    out, rest = [], size
    while rest > 1:
        out.append(int(rng.choice([d for d in range(2, rest + 1) if rest % d == 0])))
        rest //= out[-1]
    if size == 0 or rng.random() < 0.3:
        out.insert(int(rng.integers(0, len(out) + 1)), min(size, 1))
    return tuple(out)


def axes(rng: Rng, a: Any, count: int) -> str:
    """Some axes of an array, each once."""
    return str([int(i) for i in rng.permutation(max(a.ndim, count))[:count]])[1:-1]


def stretched(rng: Rng, a: Any) -> Shape:
    """A shape that an array stretches to."""
    grown = tuple(int(rng.integers(1, 4)) if d == 1 else d for d in a.shape)
    return grown if rng.random() < 0.5 else (2, *grown)


def order(rng: Rng, known: str) -> str:
    """An order of elements, as an argument."""
    return f"order='{rng.choice(list(known))}'"


Line = Callable[[Rng, str, Any], str]
VIEWS: list[Line] = [
    *[lambda rng, n, a: f"{n}[{index_of(rng, a.shape)}]"] * 4,
    *[lambda rng, n, a: f"{n}.reshape({shape_of(rng, a.size)})"] * 2,
    lambda rng, n, a: f"{n}.reshape({shape_of(rng, a.size)}, {order(rng, 'CFA')})",
    lambda rng, n, a: f"np.reshape({n}, -1, {order(rng, 'CFA')})",
    *[lambda rng, n, a: f"{n}.ravel()"] * 2,
    lambda rng, n, a: f"np.ravel({n}, {order(rng, 'CFAK')})",
    lambda rng, n, a: f"{n}.ravel({order(rng, 'CFAK')})",
    lambda rng, n, a: f"{n}.flatten()",
    lambda rng, n, a: f"{n}.flatten({order(rng, 'CFAK')})",
    lambda rng, n, a: f"{n}.T",
    lambda rng, n, a: f"{n}.mT",
    lambda rng, n, a: f"{n}.transpose({axes(rng, a, a.ndim)})",
    lambda rng, n, a: f"np.transpose({n})",
    lambda rng, n, a: f"{n}.swapaxes({axes(rng, a, 2)})",
    lambda rng, n, a: f"np.moveaxis({n}, {axes(rng, a, 2)})",
    lambda rng, n, a: f"np.rollaxis({n}, {axes(rng, a, 2)})",
    lambda rng, n, a: f"np.squeeze({n})",
    lambda rng, n, a: f"np.expand_dims({n}, {axes(rng, a, 1)})",
    lambda rng, n, a: f"np.broadcast_to({n}, {stretched(rng, a)})",
    lambda rng, n, a: f"np.broadcast_arrays({n}, np.ones({stretched(rng, a)}))[0]",
    lambda rng, n, a: f"np.diagonal({n}, {rng.integers(-1, 2)}, {axes(rng, a, 2)})",
    lambda rng, n, a: f"np.diag({n})",
    lambda rng, n, a: f"np.flip({n}, {axes(rng, a, 1)})",
    lambda rng, n, a: f"np.rot90({n}, {rng.integers(4)})",
    lambda rng, n, a: f"np.split({n}, [1], {axes(rng, a, 1)})[1]",
    lambda rng, n, a: f"np.atleast_2d({n})",
    lambda rng, n, a: f"np.atleast_3d({n})",
    lambda rng, n, a: f"{n}.real",
    lambda rng, n, a: f"np.real({n})",
    lambda rng, n, a: f"xp.asarray({n})",
    lambda rng, n, a: f"xp.astype({n}, np.float64, copy=False)",
    lambda rng, n, a: f"np.lib.stride_tricks.sliding_window_view({n}, 2, {axes(rng, a, 1)})",
    lambda rng, n, a: f"[*{n}][-1]",
]  # fmt: skip
RESULTS: list[Line] = [
    lambda rng, n, a: f"{n} + 1",
    lambda rng, n, a: f"{n} + np.ones({a.shape})",
    lambda rng, n, a: f"{n} - x",
    lambda rng, n, a: f"{n} - v0",
    lambda rng, n, a: f"{n} - {n}.T",
    lambda rng, n, a: f"np.maximum({n}, y)",
    lambda rng, n, a: f"np.where({n} > 3, {n}, -1.0)",
    lambda rng, n, a: f"np.clip({n}, 0, 9)",
    lambda rng, n, a: f"-{n}",
    lambda rng, n, a: f"{n}.copy()",
    lambda rng, n, a: f"np.copy({n})",
    lambda rng, n, a: f"{n}.copy({order(rng, 'CFAK')})",
    lambda rng, n, a: f"{n}.astype(np.float64)",
    lambda rng, n, a: f"xp.astype({n}, np.float64)",
    lambda rng, n, a: f"{n}.astype(np.float64, {order(rng, 'CFAK')})",
    lambda rng, n, a: f"np.zeros_like({n})",
    lambda rng, n, a: f"np.ones_like({n}, {order(rng, 'CFAK')})",
    lambda rng, n, a: f"np.full_like({n}, 2)",
    lambda rng, n, a: f"xp.zeros({a.shape})",
    lambda rng, n, a: f"np.sort({n})",
    lambda rng, n, a: f"np.roll({n}, 1, {axes(rng, a, 1)})",
    lambda rng, n, a: f"np.nan_to_num({n})",
    lambda rng, n, a: f"np.round({n})",
]  # fmt: skip
WRITES: list[Line] = [
    *[lambda rng, n, a: f"{n}[{index_of(rng, a.shape)}] = {rng.integers(1000)}"] * 3,
    lambda rng, n, a: f"{n}[{index_of(rng, a.shape)}] *= 2",
    lambda rng, n, a: f"{n} += {rng.integers(1000)}",
    lambda rng, n, a: f"{n}[{n} > 50] = {rng.integers(50)}",
    lambda rng, n, a: f"{n}.fill({rng.integers(1000)})",
    lambda rng, n, a: f"{n}.sort()",
    lambda rng, n, a: f"{n}[...] = {n}[::-1] + 1",
]  # fmt: skip


# -- the command -----------------------------------------------------------------------------------


def main() -> int:
    """Runs programs and prints those that fail; the exit code is 1 if there are some."""
    parser = argparse.ArgumentParser(description="Random programs of views, staged and by NumPy.")
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--most", type=int, default=5, help="failures after which it ends")
    given = parser.parse_args()
    print(f"{given.count} programs from seed {given.seed}", flush=True)
    failed = 0
    for seed in range(given.seed, given.seed + given.count):
        program = draw(seed)
        if program.failure() is not None:
            failed += 1
            small = program.reduced()
            print(f"\nseed {seed}:\n{small}\n-> {small.failure()}", flush=True)
            if failed >= given.most:
                break
    print(f"{failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
