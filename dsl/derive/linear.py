"""``vjp`` and ``linearize``: a function at a point, and the linear maps from there.

The residuals of the function are computed once and kept: as values inside a trace, as arrays that
belong to the map alone outside of one. Outside, the residuals of a loop of unknown length are a
stack with one slot for each trip; if it is too small, the function runs again with a larger one.
Inside a trace such a loop has a tape, which can be read only once. There, and for every function
that calls itself, the operands are kept instead, and each use of the map computes the function
again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import UserError
from dlvm.compile import Options, at_a_point
from dlvm.dsl.call.function import StagedFunction
from dlvm.dsl.flow.control import in_trace
from dlvm.dsl.trace.configuration import Branch
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, here, plain, shape_of, staged
from dlvm.dsl.trace.scopes import Trace, user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.trace.tracing import Callee, call, call_function
from dlvm.dsl.trace.trees import Spec, flatten, node, unflatten
from dlvm.ir import FunctionRef, Module, Op, Value, zeros
from dlvm.ir.core import Entry, Function
from dlvm.ir.rewrite import Env, everywhere, mapped, transform
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sizes.dims import Dim

from .derivatives import converted, derived_once, made_by_code, tangents_like
from .transforms import Applied, applied, float_leaves, main_results, regrouped, seeds_of

if TYPE_CHECKING:
    from dlvm.ad.linear import Point

Fun = Callable[..., Any]
ROOM = 64
"""Slots of the stack of a loop of unknown length at first; doubled until they are enough."""


@dataclass(frozen=True, eq=False)
class Copied:
    """Functions of one trace that can be called in another one.

    ``made`` has all functions of the first trace, ``known`` those that ``trace`` has itself;
    ``mesh`` is that of both.
    """

    made: Sequence[Entry]
    trace: weakref.ref[Trace]
    known: frozenset[str]
    mesh: Mesh | None

    def adopted(self, fn: Function) -> str:
        """A function copied into the present trace, with all functions that it calls."""
        trace = here().trace
        names: dict[str, str] = trace.memo.setdefault(("adopted", self), {})
        known = self.known if trace is self.trace() else frozenset[str]()
        made = {e.name: e for e in self.made}
        new = [e for e in reached(fn, made) if e.name not in known and e.name not in names]
        names.update({e.name: trace.unique(e.name) for e in new})
        trace.entries += [_renamed(e, names) for e in new]
        return names.get(fn.name, fn.name)


@dataclass(frozen=True, eq=False)
class At:
    """A function linearised at a point: its map, and the structures of its arguments
    and results.
    """

    point: Point
    made: Applied
    positions: tuple[int, ...]
    main: Callee
    functions: Copied

    @cached_property
    def staged(self) -> StagedFunction[..., Any]:
        """The map outside a trace, compiled once."""
        return StagedFunction(_applied, options=Options(mesh=self.functions.mesh))

    def apply(self, kept: Sequence[Any], given: Iterable[Value]) -> list[Tensor]:
        """Applies the map in the present trace."""
        name = self.functions.adopted(self.point.map)
        witness = (zeros(t) for t in self.point.witness)
        operands = [*(staged(x).read() for x in kept), *given, *witness]
        return call(name, operands, [r.type for r in self.point.map.results])

    def back(self, kept: Sequence[Any], cotangents: Any) -> tuple[Any, ...]:
        """Takes cotangents of the results to one tree for each argument."""
        found = self.apply(kept, seeds_of(self.main, cotangents))
        by_leaf = dict(zip(self.positions, found, strict=True))
        return tuple(regrouped(self.made, self.made.arguments.names, by_leaf))

    def along(self, kept: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Takes a tangent, or None, for each leaf of the arguments to the tangents of
        the results.
        """
        params = self.point.map.params[len(kept) :]
        pairs = zip(self.positions, params, strict=False)
        given = [converted(tangents[i], p.type) for i, p in pairs]
        found = iter(self.apply(kept, given))
        types = self.main.types
        pushed = [next(found) if t.dtype.is_float else None for t in types]
        return unflatten(self.main.tree, pushed)


@dataclass(frozen=True, eq=False)
class Again:
    """A function with a tape, linearised at a point: it keeps operands and runs again for each use.

    The operands are its arguments and what it captures, as they were at the point.
    """

    function: Function
    made: Applied
    positions: tuple[int, ...]
    main: Callee
    functions: Copied

    @cached_property
    def staged(self) -> StagedFunction[..., Any]:
        """The map outside a trace, compiled once."""
        return StagedFunction(_applied, options=Options(mesh=self.functions.mesh))

    def _declared(self, kind: str, **options: Any) -> str:
        name = self.functions.adopted(self.function)
        return here().trace.declare(kind, name, wrt=self.positions, **options).name

    def back(self, kept: Sequence[Any], cotangents: Any) -> tuple[Any, ...]:
        """Takes cotangents of the results to one tree for each argument."""
        types = self.made.callee.types
        seeds = seeds_of(self.main, cotangents)
        rest = types[len(self.main.types) :]
        seeds += [zeros(t) for t in rest if t.dtype.is_float]
        operands = [staged(x).read() for x in kept]
        name = self._declared("adjoint", keep=(), seeded=True)
        found = call(name, [*operands, *seeds], [operands[i].type for i in self.positions])
        by_leaf = dict(zip(self.positions, found, strict=True))
        return tuple(regrouped(self.made, self.made.arguments.names, by_leaf))

    def along(self, kept: Sequence[Any], tangents: Sequence[Any]) -> Any:
        """Takes a tangent, or None, for each leaf of the arguments to the tangents of
        the results.
        """
        operands = [staged(x).read() for x in kept]
        given = [converted(tangents[i], operands[i].type) for i in self.positions]
        types = self.made.callee.types
        name = self._declared("tangent", keep=(), seeded=False)
        found = iter(call(name, [*operands, *given], [t for t in types if t.dtype.is_float]))
        pushed = [next(found) if t.dtype.is_float else None for t in self.main.types]
        return unflatten(self.main.tree, pushed)


def reached(fn: Function, made: dict[str, Entry]) -> list[Entry]:
    """A function and all functions that it calls, directly or through others."""
    found: dict[str, Entry] = {fn.name: fn}
    pending: list[Entry] = [fn]
    while pending:
        for name in _refers(pending.pop()):
            if name not in found:
                found[name] = made[name]
                pending.append(made[name])
    return list(found.values())


def _refers(entry: Entry) -> Iterator[str]:
    if not isinstance(entry, Function):
        yield entry.of
        return
    for op in entry.walk():
        yield from (v.name for v in op.attributes.values() if isinstance(v, FunctionRef))


def _renamed(entry: Entry, names: dict[str, str]) -> Entry:
    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        refs = {k: v for k, v in op.attributes.items() if isinstance(v, FunctionRef)}
        if not refs:
            return None
        new = {k: FunctionRef(names.get(v.name, v.name)) for k, v in refs.items()}
        return op.rebuild(mapped(op.operands, env), **new).results

    name = names[entry.name]
    if not isinstance(entry, Function):
        return replace(entry, name=name, of=names.get(entry.of, entry.of))
    same = everywhere(entry, lambda body: transform(body, visit))
    return replace(same, name=name)


@dataclass(frozen=True, slots=True)
class Ahead:
    """The key of a program that runs a function and returns the residuals of a map."""

    forward: bool
    has_aux: bool
    room: int


Primals = tuple[Spec, tuple[tuple[Dim, ...], ...]]
"""The structure of the arguments at which a map was made, and the shape of each leaf."""


class Linear(Branch):
    """A linear map at a point: a tree of the arrays that it keeps, whose structure is its program.

    It enters and leaves staged functions, loops and ``dlvm.tree.map`` as any other tree does.
    """

    def __init__(self, at: At | Again, values: Sequence[Any], primals: Primals) -> None:
        self.at = at
        self.values = values
        self.primals = primals
        node(type(self), _taken_apart, partial(_put_together, type(self)))

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} of {self.at.made.callee.name}>"


Form = tuple["At | Again", Primals]


def _taken_apart(x: Linear) -> tuple[tuple[Any, ...], Form, tuple[str, ...]]:
    names = tuple(f"kept_{i}" for i in range(len(x.values)))
    return tuple(x.values), (x.at, x.primals), names


def _put_together(cls: type[Linear], form: Form, values: Sequence[Any]) -> Linear:
    return cls(form[0], values, form[1])


class Pullback(Linear):
    """Takes cotangents of the results to those of the primals; ``dlvm.vjp`` returns one."""

    @facing_users
    def __call__(self, cotangent: Any) -> tuple[Any, ...]:
        """The cotangents: for each primal a tree of its structure."""
        if in_trace():
            return self.at.back(self.values, cotangent)
        return self.at.staged(self, cotangent)


class Pushforward(Linear):
    """Takes tangents of the primals to those of the results; ``dlvm.linearize`` returns one."""

    @facing_users
    def __call__(self, *tangents: Any) -> Any:
        """The tangents, as a tree of the structure of the results."""
        if not in_trace():
            return self.at.staged(self, *tangents)
        tree, shapes = self.primals
        if len(tangents) != tree.num_children:
            raise UserError(
                f"the linear map takes {tree.num_children} tangents, found {len(tangents)}",
                origin=user_origin(),
                remedy="pass a tangent for each argument, or None for one that does not move",
            )
        return self.at.along(self.values, tangents_like(tree, shapes, tangents))


def _applied(linear: Callable[..., Any], *args: Any) -> Any:
    return linear(*args)


def ahead(f: Fun, primals: Sequence[Any], forward: bool, has_aux: bool) -> tuple[Any, Linear]:
    """In a trace: the results, and the residuals that the maps need."""
    return _ahead(f, primals, forward, has_aux, None)[:2]


def _ahead(
    f: Fun, primals: Sequence[Any], forward: bool, has_aux: bool, room: int | None
) -> tuple[Any, Linear, Any]:
    """The same with tapes as stacks of a given number of slots; the last result is the number
    needed.
    """
    kind, given = Pushforward if forward else Pullback, _primals(primals)
    made = applied(f, primals, {})
    positions = every_float(made)
    callee, trace = made.callee, here().trace
    main = main_results(callee) if has_aux else callee
    seeded = [i < len(main.types) and t.dtype.is_float for i, t in enumerate(callee.types)]
    operands = made.operands()
    wrt = [i in positions for i in range(len(operands))]
    module = Module(tuple(trace.entries))
    if any(fn.has_effect for fn in module.functions):
        room = None  # for it would be seen again where the room was too small
    point = at_a_point(module, callee.name, wrt, seeded, forward, room)
    known, form = frozenset(e.name for e in trace.entries), replace(made, leaves=[])
    if point is None:
        functions = Copied(module.entries, weakref.ref(trace), known, trace.mesh)
        again = Again(module.function(callee.name), form, positions, main, functions)
        return call_function(callee, made.leaves), kind(again, [*map(fresh, operands)], given), None
    functions = Copied(point.made, weakref.ref(trace), known, trace.mesh)
    at = At(point, form, positions, main, functions)
    types = [r.type for r in point.ahead.results]
    found = call(functions.adopted(point.ahead), operands, types)
    wanted = None if room is None else found.pop()
    n = len(callee.types)
    return unflatten(callee.tree, found[:n]), kind(at, found[n:], given), wanted


def _primals(primals: Sequence[Any]) -> Primals:
    leaves, tree = flatten(tuple(primals))
    return tree, tuple(shape_of(plain(x)) for x in leaves)


def every_float(made: Applied) -> tuple[int, ...]:
    """The leaves through which derivatives flow; there must be one."""
    found = tuple(i for i, x in enumerate(made.leaves) if x.element.is_float)
    return found or tuple(float_leaves(made, made.arguments.names))


def outside(f: Fun, primals: Sequence[Any], forward: bool, has_aux: bool) -> tuple[Any, Linear]:
    """The same outside a trace, by a program that is compiled once."""
    room = _room(f, forward, has_aux)
    while True:
        out, kept, wanted = _program(f, forward, has_aux, room)(tuple(primals))
        if wanted is None or wanted <= room:
            return out, kept
        room = 1 << (int(wanted) - 1).bit_length()


def _room(f: Fun, forward: bool, has_aux: bool) -> int:
    """The largest number of slots that any call has needed so far."""
    keys = [key for key in made_by_code(f) if isinstance(key, Ahead)]
    rooms = (k.room for k in keys if (k.forward, k.has_aux) == (forward, has_aux))
    return max(rooms, default=ROOM)


def _program(f: Fun, forward: bool, has_aux: bool, room: int) -> Fun:
    def program(f: Fun) -> Fun:
        def of(primals: Any) -> Any:
            return _ahead(f, primals, forward, has_aux, room)

        return of

    kind = "linearize" if forward else "vjp"
    return derived_once(kind, f, Ahead(forward, has_aux, room), program)


# -- for users -----------------------------------------------------------------------------------


@facing_users
def vjp(f: Fun, *primals: Any, has_aux: bool = False) -> Any:
    """``(f(*primals), pull)``; ``pull`` takes cotangents of the results to those of the primals.

    ``pull`` can be called any number of times, and never computes ``f`` again::

        y, pull = dlvm.vjp(dlvm.sin, x)
        pull(dx)[0]                          # np.cos(x) * dx

    With ``has_aux`` ``f`` gives ``(out, aux)``, and vjp ``(out, pull, aux)``.
    """
    found, pull = (ahead if in_trace() else outside)(f, primals, False, has_aux)
    out, aux = found if has_aux else (found, None)
    return (out, pull, aux) if has_aux else (out, pull)


@facing_users
def linearize(f: Fun, *primals: Any) -> tuple[Any, Any]:
    """``f(*primals)`` and the linear function that takes tangents to tangents of the result.

    That can be called any number of times, and never computes ``f`` again::

        y, push = dlvm.linearize(dlvm.sin, x)
        push(dx)                             # np.cos(x) * dx
    """
    return (ahead if in_trace() else outside)(f, primals, True, False)
