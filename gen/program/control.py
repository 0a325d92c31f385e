"""From a function to a program: every value gets memory, control becomes steps.

A straight translation: each result has storage of its own, and where two must be one memory
(the carried value of a loop and what the body makes of it, the target of a scatter and its
result, a result of the function) a copy says so. ``coalesce`` takes the copies out again where
the two never hold different values at once; so nothing here decides what is done in place.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count, repeat
from typing import Any, TypeVar

import numpy as np

from dlvm.base.errors import CompilerError, Origin
from dlvm.base.progress import doing
from dlvm.gen.loops.statements import LoopKernel
from dlvm.gen.loops.status import code_of
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.planner import Planner
from dlvm.gen.schedule.plans import Plans
from dlvm.gen.schedule.text import Schedule
from dlvm.ir import (
    Array,
    Builder,
    Dim,
    Function,
    Module,
    Op,
    Param,
    TensorType,
    Value,
)
from dlvm.ir.core import as_tuple
from dlvm.ir.dataflow import Runs
from dlvm.ir.rewrite import types_of
from dlvm.ir.sizes.dims import symbol, symbols, with_atoms
from dlvm.ir.types import contents
from dlvm.ir.unify import unify
from dlvm.ops import (
    Assert,
    Call,
    Constant,
    Control,
    EmptyTape,
    Kernel,
    Pop,
    Print,
    Push,
    Reshape,
    Structured,
    Tap,
    family_of,
    kernel_of,
)
from dlvm.ops.flow.kernels import OWN
from dlvm.ops.flow.ranked import Ranked
from dlvm.ops.literals import TOLD
from dlvm.target import Target

from . import steps as p
from .dense_sections import dense_sections
from .own_sizes import own_sizes
from .parallel import is_apart
from .steps import Copy, Given, PartOf, Program, Storage, View

AnyOp = TypeVar("AnyOp", bound=Op)
Lower = Callable[["Lowering", Any, list[View]], list[View]]
LOWERINGS: dict[type[Op], Lower] = {}


def lowers(
    *classes: type[AnyOp],
) -> Callable[
    [Callable[[Lowering, AnyOp, list[View]], list[View]]],
    Callable[[Lowering, AnyOp, list[View]], list[View]],
]:
    """Register how operations of these classes become steps: from operands' views to results'."""

    def register(
        rule: Callable[[Lowering, AnyOp, list[View]], list[View]],
    ) -> Callable[[Lowering, AnyOp, list[View]], list[View]]:
        LOWERINGS.update((c, rule) for c in classes)
        return rule

    return register


def to_program(module: Module, plans: Plans | None = None, threads: bool = True) -> Program:
    """The program of a module's first function, with the functions that it calls.

    Its kernels run as the ``plans`` say, or as the planner does. Where there are no ``threads``
    to share the trips of a loop, its body needs no function and no memory of its own.
    """
    return _translated(Book(module, plans or Planner(Target.host()), threads))


def kernels_of(module: Module) -> list[tuple[Kernel, LoopKernel]]:
    """The kernels of a program, with their plain loops."""
    book = Book(module, Schedule.plain())
    return [(book.sources[k.name], k) for k in _translated(book).kernels()]


def _translated(book: Book) -> Program:
    module = book.module
    main = Lowering(module.main, book).program()
    callees: list[Program] = []
    while len(callees) < len(book.called):
        callee = [*book.called.values()][len(callees)]
        callees.append(replace(callee.program(), inner=True, trip=callee.trip))
    constants = tuple(array for array, _ in book.constants.values())
    told = {"prints": tuple(book.prints), "calls": tuple(book.calls)}
    exchanges = tuple(book.exchanges)
    whole = [replace(p, constants=constants, exchanges=exchanges, **told) for p in (main, *callees)]
    return replace(whole[0], callees=tuple(whole[1:]))


class Book:
    """What the functions of one program share."""

    def __init__(self, module: Module, plans: Plans, threads: bool = True) -> None:
        self.module = module
        self.plans = plans
        self.threads = threads
        self.sources: dict[str, Kernel] = {}
        self.called: dict[str, Lowering] = {}
        self.kernels: dict[tuple[Any, ...], LoopKernel] = {}
        self.constants: dict[Any, tuple[Array, View]] = {}
        self.prints: list[p.Told] = []
        self.calls: list[p.Called] = []
        self.exchanges: list[Ranked] = []

    def callee(self, name: str) -> Function:
        """A function that is called, and so becomes part of the program."""
        if name not in self.called:
            self.called[name] = Lowering(self.module.function(name), self)
        return self.called[name].fn

    def trip(self, body: Function, symbols: tuple[str, ...]) -> str:
        """The name of a loop's body, which becomes a function of the program."""
        taken = {*self.called, *(fn.name for fn in self.module.functions)}
        name = next(n for i in count() if (n := f"trip{i}") not in taken)
        self.called[name] = Lowering(replace(body, name=name), self, symbols)
        return name


class Lowering:
    """The translation of one function: the steps so far and what they refer to.

    The body of a loop is a trip, whose ``symbols`` are those around it.
    """

    def __init__(self, fn: Function, book: Book, around: tuple[str, ...] | None = None) -> None:
        self.fn = fn
        self.book = book
        self.trip = around is not None
        own = dict.fromkeys(s for v in fn.params for d in v.type.shape for s in symbols(d))
        self.symbols = tuple(own) if around is None else around
        self.steps: list[p.Step] = []
        self.loops: tuple[str, ...] = ()
        self.variables = 0
        self.storages = 0

    def program(self) -> Program:
        """Parameters and results have the caller's memory, donated ones share it."""
        params = [
            self.given("param", i, v.type, v.name or f"arg{i}")
            for i, v in enumerate(self.fn.params)
        ]
        plan = self.fn.donations()
        results = [
            params[plan[j]] if j in plan else self.given("result", j, r.type, f"result{j}")
            for j, r in enumerate(self.fn.results)
        ]
        self.copy_all(self.region(self.fn, params), results)
        donated = (v.storage for v, x in zip(params, self.fn.params, strict=True) if x.donated)
        return Program(
            self.fn.name,
            self.symbols,
            tuple(params),
            tuple(results),
            (),
            (),
            tuple(self.steps),
            frozenset(donated),
        )

    def region(self, fn: Function, arguments: Sequence[View]) -> list[View]:
        """Translate a body here, on these arguments; where its results are."""
        env: dict[Value, View] = dict(zip(fn.params, arguments, strict=True))
        sections = dense_sections(fn)
        for op in fn.ops:
            if op in sections:
                x = env[op.operands[0]]
                env[op.results[0]] = View(x.storage, op.result_types[0], x.offset + sections[op])
                continue
            views = lowering_of(op)(self, op, [env[v] for v in op.operands])
            env.update(zip(op.results, views, strict=True))
        return [env[r] for r in fn.results]

    def entered(self, body: Function, arguments: Sequence[View]) -> list[View]:
        """A body as a function that is entered here; where its results are."""
        name = self.book.trip(body, self.symbols)
        results = [self.room(r.type) for r in body.results]
        sizes = tuple(map(symbol, self.symbols))
        self.steps.append(p.CallFunction(name, tuple(arguments), tuple(results), sizes))
        return results

    @contextmanager
    def block(self, variable: str | None = None) -> Generator[list[p.Step]]:
        """Collect the steps made meanwhile; under a loop variable if one is named."""
        outer, self.steps = self.steps, []
        loops = self.loops
        if variable is not None:
            self.loops = (*loops, variable)
        yield self.steps
        self.steps, self.loops = outer, loops

    def kernel(self, op: Kernel) -> tuple[LoopKernel, Mapping[str, Dim]]:
        """The loops of a kernel, and what its own sizes are here.

        There is one for kernels of equal text that fail under equal codes.
        """
        values, sizes = own_sizes(op.body)
        op = op.with_sizes(lambda d: with_atoms(d, values)) if values else op
        body = replace(op.body, name="kernel")
        codes = tuple(code_of(inner) for inner in body.walk() if inner.may_raise)
        key = (str(Module((body,))), codes, op.family, op.tree, op.over)
        kernels = self.book.kernels
        if key not in kernels:
            name = f"k{len(kernels)}"
            kernels[key] = self._scheduled(op, name)
            self.book.sources[name] = op
        return kernels[key], sizes

    def _scheduled(self, op: Kernel, name: str) -> LoopKernel:
        """The loops of a kernel under the schedule that was given for it, or a planned one."""
        plans = self.book.plans
        plain = replace(lower(op, name, plans.forms), origin=op.origin)
        doing("lowering to loops", self.book.module.operations)
        return plans.applied(plain)

    # -- memory -----------------------------------------------------------------------------

    def given(self, kind: Any, index: int, type_: TensorType, name: str) -> View:
        """A view of the caller's memory or of a constant."""
        return View(Storage(name, type_.dtype, type_.size, Given(kind, index)), type_)

    def room(self, type_: TensorType, within: PartOf | None = None) -> View:
        """New memory for a value, or a part of another storage."""
        name = f"t{self.storages}"
        self.storages += 1
        return View(Storage(name, type_.dtype, type_.size, within, self.loops), type_)

    def constant(self, value: Array, type_: TensorType) -> View:
        """The view of a constant; equal ones are one, but for floats, which others may replace."""
        same = id(value) if type_.dtype.is_float and value.size > TOLD else contents(value)
        key = (str(type_.dtype), value.shape, same)
        known = self.book.constants
        if key not in known:
            index = len(known)
            known[key] = (value, self.given("constant", index, type_, f"constant{index}"))
        return known[key][1]

    def variable(self) -> str:
        """The name of a loop variable, which is no size of the program."""
        while True:
            name = f"i{self.variables}"
            self.variables += 1
            if name not in self.symbols:
                return name

    def copied(self, x: View) -> View:
        """A copy of a value in fresh room."""
        target = self.room(x.type)
        self.steps.append(Copy(x, target))
        return target

    def copy_all(self, sources: Sequence[View], targets: Sequence[View]) -> None:
        """Write all the sources into the targets as if at once."""
        overwritten = {t.storage for t in targets}
        pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if not s.same_memory(t)]
        saved = [(self.copied(s) if s.storage in overwritten else s, t) for s, t in pairs]
        self.steps.extend(Copy(s, t) for s, t in saved)


# -- operations that become no loops ----------------------------------------------------------


@lowers(Constant)
def constant(low: Lowering, op: Constant, xs: list[View]) -> list[View]:
    """Its array, which nobody writes."""
    return [low.constant(op.value, op.type)]


@lowers(EmptyTape)
def empty_tape(low: Lowering, op: EmptyTape, xs: list[View]) -> list[View]:
    """The null tape."""
    return [low.constant(np.zeros((), np.int64), op.type)]


@lowers(Reshape)
def reshape(low: Lowering, op: Reshape, xs: list[View]) -> list[View]:
    """The same memory, seen in another shape."""
    return [View(xs[0].storage, op.type, xs[0].offset)]


@lowers(Assert)
def check(low: Lowering, op: Assert, xs: list[View]) -> list[View]:
    """A step that may leave."""
    low.steps.append(p.EndUnless(xs[0], code_of(op)))
    return []


@lowers(Print, Tap)
def show(low: Lowering, op: Print | Tap, xs: list[View]) -> list[View]:
    """A step that calls back."""
    prints = low.book.prints
    low.steps.append(p.Show(xs[0], len(prints)))
    prints.append((op.label, op.x.type, op.name))
    return []


@lowers(Push)
def push(low: Lowering, op: Push, xs: list[View]) -> list[View]:
    """The tape is a handle, of which a new one comes out."""
    result = low.room(op.type)
    low.steps.append(p.Push(xs[0], tuple(xs[1:]), result))
    return [result]


@lowers(Pop)
def pop(low: Lowering, op: Pop, xs: list[View]) -> list[View]:
    """What lay on the tape is copied out."""
    result, *values = (low.room(t) for t in op.result_types)
    low.steps.append(p.Pop(xs[0], tuple(values), result))
    return [result, *values]


# -- kernels ------------------------------------------------------------------------------------


@lowers(Kernel)
def launch(low: Lowering, op: Kernel, xs: list[View]) -> list[View]:
    """What a kernel updates in place is copied first; other results and scratch get fresh room."""
    kernel, sizes = low.kernel(op)
    views = [
        low.copied(x) if buffer.role == "inout" else x
        for x, buffer in zip(xs, kernel.buffers, strict=False)
    ]
    results: list[View] = []
    for target, type_ in zip(op.over or repeat(OWN), op.result_types, strict=False):
        if target == OWN:
            results.append(low.room(type_))
            views.append(results[-1])
        else:
            results.append(View(views[target].storage, type_))
    rooms = (b.type.substitute(sizes) for b in kernel.buffers if b.role == "scratch")
    views += map(low.room, rooms)
    low.steps.append(p.Launch(kernel, tuple(views), sizes, _places(op)))
    return results


def _places(op: Kernel) -> tuple[Origin, ...]:
    """The places in the user's source whose operations a kernel computes, each once."""
    found = [inner.origin for inner in op.body.walk()] + [op.origin]
    return tuple(dict.fromkeys(o for o in found if o is not None))


def one_kernel(low: Lowering, op: Op, xs: list[View]) -> list[View]:
    """An operation outside every kernel is one by itself."""
    params, inner = alone(op)
    body = Function("body", params, (inner,), inner.results)
    return launch(low, kernel_of(op.operands, body, family_of(op)), xs)


def alone(op: Op) -> tuple[tuple[Param, ...], Op]:
    """Parameters, and the operation on them."""
    params = tuple(Param(v.type, f"x{i}") for i, v in enumerate(op.operands))
    with Builder():
        return params, op.rebuild(params)


def written_out(low: Lowering, op: Op, xs: list[View]) -> list[View]:
    """An operation that is stated in others, where no pass has put these in its place."""
    params, inner = alone(op)
    with Builder() as b:
        values = as_tuple(inner.lowering())
    return low.region(Function("body", params, tuple(b.ops), values), xs)


def ask(low: Lowering, op: Op, xs: list[View]) -> list[View]:
    """A step that calls the reference of an operation."""
    results = [low.room(t) for t in op.result_types]
    calls, sizes = low.book.calls, tuple(map(symbol, low.symbols))
    low.steps.append(p.CallPython(tuple(xs), tuple(results), sizes, len(calls)))
    calls.append((alone(op)[1], low.symbols))
    return results


def exchange(low: Lowering, op: Ranked, xs: list[View]) -> list[View]:
    """A step in which ranks exchange something."""
    results = [low.room(t) for t in op.result_types]
    exchanges = low.book.exchanges
    for given, result in zip([(x,) for x in xs] or [()], results, strict=True):
        low.steps.append(p.Exchange(given, (result,), op.exchanged, len(exchanges)))
        exchanges.append(op)
    return results


# -- control ------------------------------------------------------------------------------------


@lowers(Call)
def enter(low: Lowering, op: Call, xs: list[View]) -> list[View]:
    """What the callee overwrites is copied first; its other results get fresh room."""
    fn = low.book.callee(op.callee.name)
    sizes = unify(types_of(fn.params), types_of(op.operands))
    names = dict.fromkeys(s for v in fn.params for d in v.type.shape for s in symbols(d))
    plan = fn.donations()
    arguments = [
        low.copied(x) if param.donated else x for x, param in zip(xs, fn.params, strict=True)
    ]
    results = [
        View(arguments[plan[j]].storage, t) if j in plan else low.room(t)
        for j, t in enumerate(op.result_types)
    ]
    here = tuple(sizes[name] for name in names)
    low.steps.append(p.CallFunction(fn.name, tuple(arguments), tuple(results), here))
    return results


def once(low: Lowering, op: Structured, xs: list[View]) -> list[View]:
    """The body, where it stands."""
    return low.region(op.giving[0], xs[op.seen])


def choice(low: Lowering, op: Structured, xs: list[View]) -> list[View]:
    """Both branches write the same room."""
    results = [low.room(t) for t in op.result_types]
    sides: list[tuple[p.Step, ...]] = []
    for branch in op.giving:
        with low.block() as steps:
            low.copy_all(low.region(branch, xs[op.seen]), results)
        sides.append(tuple(steps))
    low.steps.append(p.If(xs[0], *sides))
    return results


def while_loop(low: Lowering, op: Structured, xs: list[View]) -> list[View]:
    """Carried values have one room each for all trips."""
    (body,), test = op.giving, op.test
    assert test is not None
    carried = [low.copied(x) for x in xs[: op.carries]]
    arguments = (*carried, *xs[op.carries :])
    with low.block() as before:
        (condition,) = low.region(test, arguments)
    with low.block() as trip:
        low.copy_all(low.region(body, arguments), carried)
    low.steps.append(p.While(tuple(before), condition, tuple(trip)))
    return carried


def counted(low: Lowering, op: Structured, xs: list[View]) -> list[View]:
    """Slices are views at an offset; a stacked result is filled part by part."""
    carrying, inputs = op.carries, op.slices
    carried = [low.copied(x) for x in xs[:carrying]]
    stacked = [low.room(t) for t in op.result_types[carrying:]]
    variable, apart = low.variable(), low.book.threads and is_apart(op)
    index = symbol(variable)
    with low.block(variable) as body:
        slices = [x.slice(index) for x in xs[carrying : carrying + inputs]]
        parts = [part_of(low, whole, index) for whole in stacked]
        arguments = (*carried, *slices, *xs[carrying + inputs :])
        results = (low.entered if apart else low.region)(op.giving[0], arguments)
        low.copy_all(results, (*carried, *parts))
    fills, own = (tuple(v.storage for v in views) for views in (stacked, parts))
    steps = tuple(body)
    low.steps.append(p.For(variable, op.trips, op.backward, steps, fills, own, apart))
    return [*carried, *stacked]


BY_RUNS: dict[Runs, Lower] = {
    Runs.ONCE: once,
    Runs.CHOICE: choice,
    Runs.WHILE: while_loop,
    Runs.COUNTED: counted,
}
"""How bodies become steps, for every operation that states its dataflow and has no rule."""


def lowering_of(op: Op) -> Lower:
    """The rule of an operation: its own, that of its dataflow, or that it is a kernel by itself."""
    own = next((LOWERINGS[c] for c in type(op).__mro__ if c in LOWERINGS), None)
    if own is not None:
        return own
    if op.dataflow is not None:
        return BY_RUNS[op.dataflow.runs]
    if isinstance(op, Control):
        raise CompilerError(f"no lowering of {op.name}; a pass should have removed it")
    if isinstance(op, Ranked) and op.exchanged:
        return exchange
    if op.asks_python:
        return ask
    return one_kernel if type(op).lowering is Op.lowering else written_out


def part_of(low: Lowering, whole: View, index: Dim) -> View:
    """The slice of a stacked result that one trip fills."""
    view = whole.slice(index)
    return low.room(view.type, PartOf(whole.storage, view.offset))
