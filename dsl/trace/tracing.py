"""Traces functions and regions: Python runs once on staged values, and the operations are recorded.

A function of the module is traced in a scope of its own, inside the scope that calls it. Values
that it uses from outside become extra parameters, and so does every symbol that no parameter binds.
A region is traced in the same way and sees the symbols around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dlvm.base.errors import Origin, TraceError, UserError
from dlvm.ir import BOOL, Function, FunctionRef, Module, Op, Param, TensorType, Value, literal
from dlvm.ir.sharding.mesh import Sharding
from dlvm.ir.sizes.dims import Dim, Expr, symbol, symbols
from dlvm.ir.unify import solvable
from dlvm.ops import Broadcast, Call, Constant

from .libraries import wrapped
from .operands import fresh, here, staged
from .provenance import definition
from .scopes import Scope, Trace, origin_in, user_origin
from .sharded import shown_sharded
from .tensor import Tensor
from .trees import Spec, as_dataclass, flatten, labels, paths, unflatten


@dataclass(frozen=True, slots=True)
class Input:
    """One staged argument: its name in IR text, its label in messages, its type.

    ``given`` is the value for which it stands in the outer scope, if there is one; ``sharding`` is
    what shares its axes as it arrives.
    """

    name: str
    label: str
    type: TensorType
    weak: bool = False
    held: str = "an argument"
    given: Value | None = field(default=None, compare=False)
    sharding: Sharding | None = None

    @property
    def shown(self) -> str:
        """Its type, with what shares its axes."""
        return shown_sharded(self.type, self.sharding)


@dataclass(frozen=True, slots=True)
class Written:
    """The record of a scope: parameters, results and the structure of the results."""

    scope: Scope
    params: tuple[Param, ...]
    results: tuple[Value, ...]
    tree: Spec

    @property
    def types(self) -> tuple[TensorType, ...]:
        """The types of the results."""
        return tuple(r.type for r in self.results)

    def region(self, name: str, captured: Sequence[Value] | None = None) -> Function:
        """A closed function; its last parameters are the captured values in the given order."""
        lifted = self.scope.lifted
        values = list(lifted) if captured is None else captured
        extra = (lifted.get(v) or Param(v.type, f"unused_{i}") for i, v in enumerate(values))
        return Function(name, (*self.params, *extra), tuple(self.scope.builder.ops), self.results)


def write(scope: Scope, inputs: Sequence[Input], body: Callable[[list[Tensor]], Any]) -> Written:
    """Runs ``body`` on staged inputs and records its operations; ``body`` returns a tree."""
    origin = user_origin()
    params = tuple(Param(i.type, i.name, origin=origin) for i in inputs)
    for param, given in zip(params, inputs, strict=True):
        if given.sharding is not None:
            param.sharding = given.sharding
    scope.symbolic = any(isinstance(d, Expr) for p in params for d in p.type.shape)
    scope.params = params
    scope.trace.inputs.update(zip(params, inputs, strict=True))
    with scope:
        tensors = [
            Tensor(p, scope, i.weak, i.held, i.label) for p, i in zip(params, inputs, strict=True)
        ]
        try:
            leaves, tree = flatten(body(tensors))
        except UserError as error:
            raise error.located(origin_in(error.__traceback__)) from error.__cause__
        except (ValueError, TypeError) as error:
            if (ours := wrapped(error)) is not None:
                raise ours from None
            raise
        at = definition(scope.trace.python) if scope.parent is None else None
        results = tuple(result(leaf, scope.label, at) for leaf in leaves)
    return Written(scope, params, results, tree)


def result(leaf: Any, label: str, at: Origin | None = None) -> Value:
    """A leaf that a function returned, as a value."""
    try:
        return staged(leaf).read()
    except TraceError as error:
        if isinstance(leaf, Tensor):
            raise
        raise TraceError(
            f"{label} returns {leaf!r:.40} of type {type(leaf).__name__}",
            origin=at or error.origin,
            remedy=as_dataclass(leaf)
            or f"leave it out: {label} returns arrays, numbers and trees of them; what is no "
            "array can be added to what the call gives",
        ) from None


def inputs_of(leaves: Sequence[Any], tree: Spec, name: str) -> list[Input]:
    """Inputs in the place of operands, with the operands' types and paths."""
    tensors = [staged(leaf) for leaf in leaves]
    return [
        Input(path, label, t.type, t.weak, given=t.contents)
        for path, label, t in zip(paths(tree, name), labels(tree, name), tensors, strict=True)
    ]


# -- functions of the module ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Callee:
    """A function of the module, its captured operands and the structure of its results."""

    name: str
    inputs: tuple[Input, ...]
    lifted: tuple[tuple[Value, Scope], ...]
    sizes: tuple[str, ...]
    types: tuple[TensorType, ...]
    tree: Spec

    @property
    def reusable(self) -> bool:
        """Whether it can be called again: all that it uses from outside are captured arrays."""
        captured = {c.param for c in here().trace.arrays.values()}
        return all(v in captured for v, _ in self.lifted)

    def extra(self) -> list[Value]:
        """The operands beyond the inputs, as values of the scope that is being traced."""
        scope = here()
        return [*(scope.lift(v, owner) for v, owner in self.lifted), *map(carrier, self.sizes)]


def carrier(size: str) -> Value:
    """A value that binds a symbol in a callee; nothing reads its elements."""
    return Broadcast(Constant(literal(False, BOOL)), (symbol(size),), ())


def write_function(
    name: str,
    inputs: Sequence[Input],
    body: Callable[[list[Tensor]], Any],
    lifting: Sequence[tuple[Value, Scope]] = (),
) -> Callee:
    """Traces a function of the module; values that it captures become operands.

    Those of ``lifting`` come first, whether the function uses them or not.
    """
    outer = here()
    trace = outer.trace
    scope = Scope(trace, outer, name)
    at = len(trace.entries)
    label = trace.unique(name)
    for value, owner in lifting:
        scope.lift(value, owner)
    written = write(scope, inputs, body)
    lifted = tuple(trace.sources[p] for p in scope.lifted.values())
    sizes = tuple(unbound(written))
    carriers = tuple(Param(TensorType(BOOL, (symbol(s),)), f"size_{s}") for s in sizes)
    closed = written.region(label)
    function = Function(label, (*closed.params, *carriers), closed.ops, closed.results)
    trace.entries.insert(at, function)
    return Callee(label, tuple(inputs), lifted, sizes, written.types, written.tree)


def unbound(written: Written) -> list[str]:
    """The symbols that a function uses although no parameter has one of them alone as a size."""
    bound: set[str] = set()
    used: dict[str, None] = {}
    if not _any_symbol(written):
        return []
    for t in (p.type for p in (*written.params, *written.scope.lifted.values())):
        for d in t.shape:
            used.update(dict.fromkeys(symbols(d)))
            bound.update(s for s in symbols(d) if d == symbol(s))
    for op in written.scope.builder.ops:
        inner = (o for region in op.regions.values() for o in region.walk())
        for d in (d for o in (op, *inner) for d in sizes_in(o)):
            used.update(dict.fromkeys(symbols(d)))
    return [s for s in used if s not in bound]


def _any_symbol(written: Written) -> bool:
    """Whether this function or one around it has a symbol; symbols come from arguments only."""
    scope: Scope | None = written.scope
    while scope is not None:
        if scope.symbolic:
            return True
        scope = scope.parent
    return False


def sizes_in(op: Op) -> Iterable[Dim]:
    """The unknown sizes in an operation's types and attributes."""
    for t in op.result_types:
        yield from (d for d in t.shape if isinstance(d, Expr))
    for value in op.attributes.values():
        yield from _sizes(value)


def _sizes(value: Any) -> Iterable[Dim]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _sizes(item)


def call(callee: str, operands: Sequence[Value], types: Sequence[TensorType]) -> list[Tensor]:
    """A call of a function or declaration of the module."""
    op = Call(tuple(operands), FunctionRef(callee), tuple(types))
    return [fresh(r) for r in op.results]


def call_function(callee: Callee, leaves: Sequence[Any]) -> Any:
    """Calls a traced function on leaves in the place of its inputs; returns its tree."""
    operands = [*(staged(x).read() for x in leaves), *callee.extra()]
    return unflatten(callee.tree, call(callee.name, operands, callee.types))


# -- whole programs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """A traced function: the module, the structure of its results, and the trace's notes."""

    module: Module
    tree: Spec
    trace: Trace


def trace_program(
    trace: Trace, inputs: Sequence[Input], body: Callable[[list[Tensor]], Any]
) -> Program:
    """Trace Python into a module whose first function takes the inputs, then captured arrays."""
    name = trace.unique(trace.label)
    written = write(Scope(trace, None, trace.label), inputs, body)
    captured = tuple(c.param for c in trace.arrays.values())
    params = (*written.params, *captured)
    main = Function(name, params, tuple(written.scope.builder.ops), written.results)
    told = solvable([p.type for p in params])
    whole = Written(written.scope, params, written.results, written.tree)
    if loose := [s for s in unbound(whole) if s not in told]:
        raise TraceError(
            f"the size {loose[0]} can't be told from the shapes of the arguments of {trace.label}",
            remedy=f"give it an axis of its own in a spec, such as f32[{loose[0]}]",
        )
    module = Module((main, *trace.entries))
    number(module)
    return Program(module, written.tree, trace)


def number(module: Module) -> None:
    """Numbers every operation in print order; a status names an operation by this number."""
    ordinal = 0
    for function in module.functions:
        for op in function.walk():
            at = op.origin
            if at is not None:
                op.origin = Origin(at.file, at.line, ordinal)
            ordinal += 1
