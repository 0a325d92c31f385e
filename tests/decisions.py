"""Questions to the compiler about small programs, answered from texts and estimates.

No question needs machine code, so each takes a few milliseconds. The answers, and the prices that
they depend on, stand in ``tests.constants``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import dlvm
from dlvm import passes
from dlvm.ad import expand
from dlvm.gen.loops.statements import Product, statements
from dlvm.gen.products.macro_kernel import Plan
from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.parallel import is_apart
from dlvm.gen.program.steps import Program
from dlvm.gen.program.times import Times
from dlvm.gen.schedule.planner import Planner
from dlvm.gen.schedule.text import schedule_text
from dlvm.ir import F32, Module, parse
from dlvm.ops import Kernel, Matmul, Structured
from dlvm.opt.law_report import helpful_assumptions
from dlvm.opt.pipelines import DEFAULT, MEANING
from dlvm.target import Target
from tests.gen.compiled import USUAL

TARGET = replace(USUAL, measured=USUAL.machine)
"""The processor that is asked about, the same on every machine that runs the tests."""

# -- what is decided about a program ---------------------------------------------------------------


def traced(f: Callable[..., Any], *shapes: str) -> Module:
    """The module of a function, whose arguments are f32; letters in shapes are open sizes."""
    given = [np.zeros([int(n) if n.isdigit() else 4 for n in s.split(",") if n]) for s in shapes]
    names = f.__code__.co_varnames
    open_ = {name: s for name, s in zip(names, shapes, strict=False) if not _is_known(s)}
    staged = dlvm.function(f, dynamic=open_) if open_ else dlvm.function(f)
    return expand(staged.trace(*(x.astype(np.float32) for x in given)))


def _is_known(shape: str) -> bool:
    return all(n.isdigit() for n in shape.split(","))


def products(f: Callable[..., Any], *shapes: str) -> str:
    """The shapes of the products of the optimised program, in order."""
    main = passes.run(traced(f, *shapes), MEANING, verify=False).main
    return " ".join(str(op.type) for op in main.walk() if isinstance(op, Matmul))


def kernels(f: Callable[..., Any], *shapes: str) -> str:
    """The operations of each kernel that computes something."""
    main = passes.run(traced(f, *shapes), DEFAULT, verify=False).main
    bodies = [op.body.ops for op in main.ops if isinstance(op, Kernel)]
    return "; ".join(" ".join(op.name for op in ops) for ops in bodies)


def occurring(words: str, f: Callable[..., Any], *shapes: str) -> str:
    """Which of some operations the optimised program holds, in branches and loops too."""
    main = passes.run(traced(f, *shapes), MEANING, verify=False).main
    found = {op.name for op in main.walk()}
    return " ".join(word for word in words.split() if word in found)


def assumptions(f: Callable[..., Any], *shapes: str) -> str:
    """The properties of parameters that are told to save work."""
    return " ".join(told.split('"')[1] for told in helpful_assumptions(traced(f, *shapes)))


def programmed(module: Module, target: Target) -> Program:
    """The scheduled program of a module that is not optimised yet."""
    return coalesce(to_program(passes.run(module, DEFAULT, verify=False), Planner(target)))


def steps(target: Target, f: Callable[..., Any], *shapes: str) -> str:
    """The steps of the schedule of a program of one kernel."""
    return steps_of(traced(f, *shapes), target)


def steps_of(module: Module, target: Target) -> str:
    """The steps of the schedule of a module of one kernel."""
    lines = schedule_text(programmed(module, target).kernels()).splitlines()[2:]
    return ", ".join(line.strip() for line in lines)


def time(target: Target, f: Callable[..., Any], *shapes: str) -> str:
    """The estimate of a program, in nanoseconds."""
    found = Times(target).program(programmed(traced(f, *shapes), target))
    assert isinstance(found, int)
    return f"{found / 1e3:.0f} ns"


def stores(f: Callable[..., Any], *shapes: str) -> int:
    """How many statements of the loops store an element of the result."""
    (kernel,) = programmed(traced(f, *shapes), TARGET).kernels()
    return str(kernel).count(f"store %{kernel.buffers[-1].name.removeprefix('%')}[")


def orientation(f: Callable[..., Any], *shapes: str) -> str:
    """The rows and columns of the one product among the loops."""
    loops = programmed(traced(f, *shapes), TARGET).kernels()
    (found,) = (s for k in loops for s in statements(k.body) if isinstance(s, Product))
    return f"{found.m} x {found.n}"


def shared_trips(f: Callable[..., Any], *shapes: str) -> str:
    """Whether threads share the trips of the one loop of a program."""
    (loop,) = (op for op in traced(f, *shapes).main.ops if isinstance(op, Structured))
    return "threads" if is_apart(loop) else "one thread"


def blocks(target: Target) -> str:
    """How a large product of f32 is cut: the part of a thread and the sizes of a block."""
    found = Plan.of(F32, False, False, target)
    return f"{found.thread} multiplications, {found.width} columns, {found.height} rows"


def copies(target: Target) -> str:
    """From how many bytes on a product copies an operand."""
    return f"from {Plan.of(F32, False, False, target).caches[0]} bytes"


def micro_kernels(target: Target) -> str:
    """The tiles that registers hold, in rows and vectors."""
    shapes = Plan.of(F32, False, False, target).shapes
    return " ".join(f"{s.rows}x{s.vectors}" for s in shapes)


OF_TWO = ("div", "pow", "floordiv")
"""The words of ``WEIGHTS`` that have two operands."""


def grain(word: str, target: Target) -> str:
    """How finely threads share a loop that applies a word of ``WEIGHTS`` four times."""
    t = "i32[1048576]" if word == "floordiv" else "f32[1048576]"
    second = ", %x0" if word in OF_TWO else ""
    lines = [f"  %x{i + 1} = {word} %x{i}{second} : {t}" for i in range(4)]
    head = f"func @f(%x0: {t}) -> {t} {{"
    text = "\n".join(("dlvm 1", head, *lines, "  return %x4", "}", ""))
    return steps_of(parse(text), target).rpartition("grain=")[2]


def many_registers(target: Target) -> str:
    """The steps of a sum of columns on a processor with twice the registers."""
    return steps(replace(target, registers=2 * target.registers), plain_columns, "1000,1024")


# -- programs --------------------------------------------------------------------------------------


def branch(c: Any, x: Any) -> Any:
    """A branch whose sides are short formulas."""
    return dlvm.cond(c > 0, dlvm.tanh, lambda x: -x, x)


def columns(x: Any, w: Any) -> Any:
    """Products of one array with four windows of another."""
    n = w.shape[1] // 4
    return [x @ w[:, i * n : (i + 1) * n] for i in range(4)]


def pieces(a: Any, b: Any) -> Any:
    """Products of pieces, each by itself."""
    return dlvm.stack([a[i] @ b[i] for i in range(4)])


def beside(a: Any, b: Any, x: Any, y: Any) -> Any:
    """A system of equations, and a product that has nothing to do with it."""
    return dlvm.linalg.solve(a, b), x @ y


def chain(a: Any, b: Any, c: Any) -> Any:
    """Three factors."""
    return (a @ b) @ c


def filters(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """A convolution of what a function gives, which windows read several times."""
    return lambda x, w: dlvm.nn.conv(f(x), w, padding="VALID")


def formula(x: Any, w: Any) -> Any:
    """A product of what is computed element by element."""
    return dlvm.exp(x) @ w


def shares(f: Callable[[Any], Any]) -> Callable[..., Any]:
    """The part that each element has of the sum of its row."""
    return lambda x: f(x) / f(x).sum(-1, keepdims=True)


def turned(x: Any, y: Any, b: Any) -> Any:
    """A product whose rows lie in memory as columns, less a row."""
    return x.T @ y - b


def trips(xs: Any) -> Any:
    """A loop whose trips read no others."""
    return dlvm.map(dlvm.tanh, xs)


def window(x: Any, y: Any, z: Any) -> Any:
    """A product that is written into a part of an array."""
    z = z.copy()
    z[:, : y.shape[1]] = x @ y
    return z


def gram(x: Any, b: Any) -> Any:
    """A system of equations with a matrix that is likely to be definite."""
    return dlvm.linalg.solve(x.T @ x, b)


def plain_columns(x: Any) -> Any:
    """A sum of columns that does little else than read."""
    return (x * x * 2).sum(0)


def worked_columns(x: Any) -> Any:
    """A sum of columns of a longer formula."""
    return (((x * x + 1) * x + 2) * x * x + 3).sum(0)


def exponentials(x: Any) -> Any:
    """One long formula for each element."""
    return dlvm.exp(x)


def plus_one(x: Any) -> Any:
    """A formula of one instruction."""
    return x + 1


def negated(x: Any) -> Any:
    """As much memory as there is for one instruction."""
    return -x


def strided(x: Any) -> Any:
    """Elements that do not lie beside one another."""
    return x[::7] + 1


def sorted_rows(x: Any) -> Any:
    """Rows that are sorted."""
    return dlvm.sort(x, -1)


def two_sorts(x: Any, y: Any) -> Any:
    """Two formulas, each of an array that must be kept until it is read."""
    return dlvm.sort(x) + 1, dlvm.exp(dlvm.sort(y))


def product(x: Any, y: Any) -> Any:
    """A product, or a batch of them."""
    return x @ y
