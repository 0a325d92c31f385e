"""Random programs rich in linear algebra, compared with the interpreter before any optimisation.

    python -m tests.opt.algebra.programs [--programs 2000] [--seconds 3600] [--seed 0]

A program is an expression of matrices, vectors and numbers with all that the laws of linear algebra
speak of; every second one is the gradient of a number made of them. Some sizes are open. Optimised
programs may differ by rounding only: by a multiple of what the same program gives if no sign is
negative, in which nothing cancels. Programs of integers agree exactly.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import dlvm
from dlvm.compile import Options, Road
from dlvm.ir import Array, Function, Module, Op, Value
from dlvm.ir.rewrite import Env, everywhere, mapped, transform
from dlvm.ops import Add, Constant, Neg, Sub
from dlvm.testing.drawing.dice import Seeded

Made = Callable[[Sequence[Any]], Any]
"""What makes a value of the arguments, staged or not."""
FLOATS = ("f64", "f64", "f32")
NUMPY = {"f64": np.float64, "f32": np.float32, "i64": np.int64, "bool": np.bool_}
ROUNDING = 64
"""Roundings, each of half a unit in the last place, that an element may differ by."""
KEPT = ("symmetric", "psd", "lower", "upper", "diagonal", "orthogonal", "nonnegative")


@dataclass
class Writer:
    """Writes expressions; arguments are made as they are needed."""

    dice: Seeded
    dtype: str
    rng: np.random.Generator
    sizes: dict[str, int] = field(default_factory=lambda: {})
    open: set[str] = field(default_factory=lambda: set())
    types: list[str] = field(default_factory=lambda: [])
    arrays: list[Array] = field(default_factory=lambda: [])
    places: dict[tuple[str, ...], list[int]] = field(default_factory=lambda: {})

    def __post_init__(self) -> None:
        for letter in "MNKL":
            self.sizes[letter] = self.dice.choose((1, 2, 3, 4, 5, 7))
            if self.dice.integer(0, 3) == 0:
                self.open.add(letter)

    @property
    def whole(self) -> bool:
        """Whether elements are integers."""
        return self.dtype[0] == "i"

    def letter(self) -> str:
        """A size."""
        return self.dice.choose("MNKL")

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, *axes: str, of: str = "", dtype: str = "") -> Made:
        """An argument of a shape, at times one that is there, with a property."""
        key = (dtype, of, *axes)
        there = self.places.setdefault(key, [])
        if not there or (len(there) < 2 and self.dice.integer(0, 1)):
            there.append(len(self.arrays))
            shape = ",".join(a if a in self.open else str(self.sizes[a]) for a in axes)
            self.types.append(f"{dtype or self.dtype}[{shape}]")
            array = self._array([self.sizes[a] for a in axes], of, dtype)
            self.arrays.append(np.asarray(array, NUMPY[dtype or self.dtype]))
        at = self.dice.choose(there)
        return lambda xs: xs[at]

    def _array(self, shape: list[int], of: str, dtype: str) -> Any:
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool)
        if dtype == "i64":  # as an index, at times outside of what it picks
            return self.rng.integers(-1, 4, shape)
        drawn = self.rng.integers(-3, 4, shape) if self.whole else self.rng.normal(size=shape)
        return self._with(np.asarray(drawn), of)

    def _with(self, a: Any, of: str) -> Any:
        """A matrix with a property, exactly so in integers."""
        match of:
            case "symmetric":
                return np.tril(a) + np.tril(a, -1).T
            case "psd":
                gram = a @ a.T
                return np.tril(gram) + np.tril(gram, -1).T
            case "lower":
                return np.tril(a)
            case "upper":
                return np.triu(a)
            case "diagonal":
                return a * np.eye(len(a), dtype=a.dtype)
            case "nonnegative":
                return abs(a)
            case "orthogonal" if self.whole:
                signs = np.sign(a[0]) + (a[0] == 0)
                return np.diag(signs)[self.rng.permutation(len(a))]
            case "orthogonal":
                return np.linalg.qr(a)[0]
            case "positive":
                return abs(a) + 0.5
            case _:
                return a

    def size(self, axis: str) -> Made:
        """A size as the program knows it, which may be open."""
        v = self.argument(axis)
        return lambda xs: xs_shape(v(xs))

    def number(self) -> Made:
        """A number: known, or an argument."""
        if self.dice.integer(0, 1):
            known = self.dice.choose((2, -1, 3) if self.whole else (2.0, -1.0, 0.5))
            return lambda xs: known
        return self.argument()

    # -- matrices ----------------------------------------------------------------------------------

    def matrix(self, m: str, n: str, depth: int) -> Made:
        """A matrix of two sizes."""
        if depth <= 0:
            return self._leaf(m, n)
        ways = [self._product, self._product, self._product, self._changed, self._sum, self._made]
        ways += [self._square] if m == n else [self._picked, self._boxes]
        ways += [self._repeated] if self.dice.integer(0, 2) == 0 else []
        return self.dice.choose(ways)(m, n, depth - 1)

    def _leaf(self, m: str, n: str) -> Made:
        if self.dice.integer(0, 2) == 0:
            x = self.argument(n, m)
            return lambda xs: x(xs).T
        if m == n and self.dice.integer(0, 1):
            return self.assumed(m)
        return self.argument(m, n)

    def assumed(self, n: str) -> Made:
        """A square matrix with a property, which is told."""
        known = self.dice.choose(KEPT)
        x = self.argument(n, n, of=known)
        turned = self.dice.integer(0, 2) == 0
        return lambda xs: dlvm.assume(x(xs), known).T if turned else dlvm.assume(x(xs), known)

    def _product(self, m: str, n: str, depth: int) -> Made:
        k = self.letter()
        if m == n and self.dice.integer(0, 3) == 0:  # X S X', or X X'
            x = self.matrix(m, k, depth - 1)
            s = self.matrix(k, k, 0) if self.dice.integer(0, 1) else None
            return lambda xs: x(xs) @ x(xs).T if s is None else x(xs) @ s(xs) @ x(xs).T
        x, y = self.matrix(m, k, depth), self.matrix(k, n, depth - self.dice.integer(0, 1))
        return lambda xs: x(xs) @ y(xs)

    def _changed(self, m: str, n: str, depth: int) -> Made:
        how = self.dice.choose(("T", "T", "-", "*", "*", "/", "rows", "columns"))
        if how == "T":
            t = self.matrix(n, m, depth)
            return lambda xs: t(xs).T
        x = self.matrix(m, n, depth)
        if how == "-":
            return lambda xs: -x(xs)
        if how == "/" and not self.whole:
            s = self.argument(of="positive")
            return lambda xs: x(xs) / s(xs)
        if how == "rows":
            u = self.vector(m, depth - 1)
            return lambda xs: u(xs)[:, None] * x(xs)
        if how == "columns":
            v = self.vector(n, depth - 1)
            return lambda xs: x(xs) * v(xs)
        c = self.number()
        return lambda xs: c(xs) * x(xs)

    def _sum(self, m: str, n: str, depth: int) -> Made:
        how = self.dice.choose("++-*")
        if how in "+-" and self.dice.integer(0, 1):  # A B + A C, or B A + C A
            k = self.letter()
            left = self.dice.integer(0, 1)
            a = self.matrix(m, k, depth - 1) if left else self.matrix(k, n, depth - 1)
            b, c = (self.matrix(*((k, n) if left else (m, k)), depth - 1) for _ in range(2))
            x, y = ((lambda xs, z=z: a(xs) @ z(xs) if left else z(xs) @ a(xs)) for z in (b, c))
        else:
            x, y = self.matrix(m, n, depth), self.matrix(m, n, depth - 1)
        if how == "*":
            return lambda xs: x(xs) * y(xs)
        return lambda xs: x(xs) + y(xs) if how == "+" else x(xs) - y(xs)

    def _made(self, m: str, n: str, depth: int) -> Made:
        how = self.dice.choose(("outer", "one-hot", "scan", "cond", "shift"))
        if how == "one-hot":
            i, size = self.argument(m, dtype="i64"), self.size(n)
            return lambda xs: dlvm.nn.one_hot(i(xs), size(xs), dtype=self.dtype)
        if how == "scan":
            x, a = self.matrix(m, n, depth - 1), self.matrix(m, m, depth - 1)
            return lambda xs: _scanned(x(xs), a(xs))
        if how == "cond":
            x, y = self.matrix(m, n, depth), self.matrix(m, n, depth - 1)
            c, b = self.argument(dtype="bool"), self.matrix(n, n, 0)
            return lambda xs: dlvm.cond(
                c(xs), lambda p, q, r: (p @ r) @ r, lambda p, q, r: q + p, x(xs), y(xs), b(xs)
            )
        u, v = self.vector(m, depth), self.vector(n, depth - 1)
        if how == "shift":
            x = self.matrix(m, n, depth)
            return lambda xs: x(xs) + dlvm.outer(u(xs), v(xs))
        return lambda xs: dlvm.outer(u(xs), v(xs))

    def _square(self, n: str, _: str, depth: int) -> Made:
        how = self.dice.choose(("diag", "eye", "tril", "triu", "power", "symmetric", "assumed"))
        if how == "assumed":
            return self.assumed(n)
        if how == "diag":
            v = self.vector(n, depth)
            return lambda xs: dlvm.diag(v(xs))
        if how == "eye":
            size = self.size(n)
            return lambda xs: dlvm.eye(size(xs), dtype=self.dtype)
        x = self.matrix(n, n, depth)
        if how == "power":
            k = self.dice.integer(2, 3)
            return lambda xs: dlvm.linalg.matrix_power(x(xs), k)
        if how == "symmetric":
            return lambda xs: (x(xs) + x(xs).T).T
        return lambda xs: dlvm.tril(x(xs)) if how == "tril" else dlvm.triu(x(xs))

    def _picked(self, m: str, n: str, depth: int) -> Made:
        """Rows of the identity, or of a product, at indices."""
        k = self.letter()
        i, x = self.argument(m, dtype="i64"), self.matrix(k, n, depth)
        size = self.size(k)
        if self.dice.integer(0, 1):
            return lambda xs: dlvm.take(x(xs), i(xs), axis=0, mode="clip")
        return lambda xs: (
            dlvm.take(dlvm.eye(size(xs), dtype=self.dtype), i(xs), axis=0, mode="clip") @ x(xs)
        )

    def _boxes(self, m: str, n: str, depth: int) -> Made:
        """A Kronecker product with a vector, as a matrix."""
        if self.open:
            return self._product(m, n, depth)
        k, l = self.letter(), self.letter()  # noqa: E741
        a, b = self.matrix(m, k, depth - 1), self.matrix(n, l, depth - 2)
        x = self.matrix(k, l, depth - 1)
        shape = self.sizes[m], self.sizes[n]
        return lambda xs: (dlvm.kron(a(xs), b(xs)) @ x(xs).reshape(-1)).reshape(shape)

    def _repeated(self, m: str, n: str, depth: int) -> Made:
        v, size = self.vector(n, depth), self.size(m)
        return lambda xs: dlvm.broadcast_to(v(xs), (size(xs), xs_shape(v(xs))))

    # -- vectors and numbers -----------------------------------------------------------------------

    def vector(self, n: str, depth: int) -> Made:
        """A vector of a size."""
        if depth <= 0:
            return self.argument(n)
        k, how = self.letter(), self.dice.integer(0, 6)
        if how == 0:
            x = self.matrix(n, n, depth - 1)
            return lambda xs: dlvm.linalg.diagonal(x(xs))
        if how <= 2:
            x, v = self.matrix(n, k, depth - 1), self.vector(k, depth - 2)
            return lambda xs: x(xs) @ v(xs)
        x = self.matrix(k, n, depth - 1)
        if how == 3:
            v = self.vector(k, depth - 2)
            return lambda xs: v(xs) @ x(xs)
        if how == 4:
            i = self.argument(dtype="i64")
            return lambda xs: dlvm.take(x(xs), i(xs), axis=0, mode="clip")
        if how == 5:
            return lambda xs: x(xs)[0]
        return lambda xs: x(xs).sum(0)

    def scalar(self, depth: int) -> Made:
        """A number that depends on most of what is written."""
        m, n, how = self.letter(), self.letter(), self.dice.integer(0, 5)
        if how == 0:
            x = self.matrix(m, m, depth)
            return lambda xs: dlvm.linalg.trace(x(xs))
        if how == 1:
            u, x, v = self.vector(m, 1), self.matrix(m, n, depth), self.vector(n, 1)
            return lambda xs: u(xs) @ x(xs) @ v(xs)
        x = self.matrix(m, n, depth)
        if how == 2:
            y = self.matrix(m, n, depth - 1)
            return lambda xs: (x(xs) * y(xs)).sum()
        if how == 3:
            return lambda xs: (x(xs) ** 2).sum()
        if how == 4:
            return lambda xs: x(xs)[-1, 0] + x(xs).sum(1)[0]
        return lambda xs: x(xs).sum()


def xs_shape(v: Any) -> Any:
    """The size of a vector."""
    return v.shape[0]


def _scanned(x: Any, a: Any) -> Any:
    """A carry that is multiplied in three trips, to which a row is added each time."""

    def trip(c: Any, row: Any) -> Any:
        return (a @ c) + c, (c.T @ row)[0]

    last, given = dlvm.scan(trip, x, a)
    return last + given.sum()


@dataclass(frozen=True)
class Program:
    """A traced module and its arguments."""

    module: Module
    arrays: list[Array]
    whole: bool


def program(seed: int) -> Program:
    """The program of a seed."""
    dice = Seeded(seed)
    dtype = "i64" if dice.integer(0, 6) == 0 else dice.choose(FLOATS)
    w = Writer(dice, dtype, np.random.default_rng(seed))
    depth = dice.integer(2, 4)
    if dice.integer(0, 1) and not w.whole:
        made = w.scalar(depth)
        wrt = tuple(i for i, t in enumerate(w.types) if t.startswith(w.dtype))
        fn: Any = dlvm.value_and_grad(lambda *xs: made(xs), wrt=wrt or (0,))
    else:
        outs = [w.matrix(w.letter(), w.letter(), depth), w.vector(w.letter(), depth - 1)]
        fn = lambda *xs: tuple(x(xs) for x in outs)  # noqa: E731
    return Program(dlvm.trace(fn, *map(dlvm.spec, w.types)), w.arrays, w.whole)


# -- comparing ------------------------------------------------------------------------------------


def without_signs(module: Module) -> Module:
    """The same operations where nothing cancels: a sum for each difference, no sign, no -1."""

    def visit(op: Op, env: Env) -> list[Value] | None:
        if not op.results or not op.results[0].type.dtype.is_float:
            return None
        match op:
            case Sub():
                return [Add(*mapped(op.operands, env))]
            case Neg():
                return mapped(op.operands, env)
            case Constant(value):
                return [Constant(np.abs(value))]
            case _:
                return None

    def change(fn: Function) -> Function:
        return transform(fn, visit)

    return module.map(lambda fn: everywhere(fn, change))


def compare(p: Program, compiled: bool) -> str:
    """How an optimised program differs from the interpreter; nothing if it does not."""
    name = p.module.main.name
    road = Road(p.module, Options(numerics="default", threads=1))
    expected = p.module.run(name, *p.arrays)
    found = road.optimized.run(road.optimized.main.name, *p.arrays)
    said = _different(p, road, expected, found)
    if compiled and not said:
        said = _different(p, road, expected, road.executable.run(p.arrays))
    return said


def _different(p: Program, road: Road, expected: Sequence[Array], found: Sequence[Array]) -> str:
    if p.whole:
        same = all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
        return "" if same else f"integers {expected} became {found}"
    bound = without_signs(road.differentiated)
    sizes = [abs(x) if x.dtype.kind == "f" else x for x in p.arrays]
    most = bound.run(bound.main.name, *sizes)
    for a, b, size in zip(expected, found, most, strict=True):
        allowed = ROUNDING * np.finfo(a.dtype).eps * size
        if not (abs(a - b) <= allowed).all():
            return f"{a} became {b}, which may differ by {allowed}"
    return ""


def main() -> int:
    """Compares programs from a seed on; the exit status says whether any differs."""
    parser = argparse.ArgumentParser(description="random linear algebra, optimised and not")
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=int, default=1, help="every n-th as machine code too")
    options = parser.parse_args()
    end, count, wrong = time.monotonic() + options.seconds, 0, 0
    for seed in range(options.seed, options.seed + options.programs):
        if time.monotonic() > end:
            break
        said = compare(program(seed), seed % options.compiled == 0)
        count, wrong = count + 1, wrong + bool(said)
        if said:
            print(f"seed {seed}: {said}", flush=True)
    print(f"{count} programs, {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
