"""Where values lie: from the few that are annotated to all others, both ways.

Axes that one factor of an operation joins, or that a body's parameter and an operand are, form a
*tie*. Ties are drawn tight until nothing changes: first those of operations that only map elements,
so that what users name decides before products and folds do. What is annotated stays as it is.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dlvm.ir import Builder, Function, Module, Op, Param, Value
from dlvm.ir.rewrite import Env, copy_ops, mapped
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding, checked_axes, known_mesh
from dlvm.ir.types import TAPE
from dlvm.ops import Shard
from dlvm.ops.families import Elementwise, IndexMap
from dlvm.ops.flow.structured import Structured
from dlvm.passes import module_pass

Place = tuple[Value, int]


@dataclass(frozen=True, eq=False, slots=True)
class Tie:
    """Axes that are cut together; ``even`` ones only into pieces of one size."""

    places: tuple[Place, ...]
    early: bool
    even: bool = False


@module_pass
def propagate_shardings(module: Module) -> Module:
    """Say of each value which axes of the mesh share its axes, from the annotated ones on.

    Of a program that is compiled for no mesh nothing is shared.
    """
    if (mesh := known_mesh()) is None:
        return module
    copy = module.map(copied)
    found = _Spreading(mesh, copy)
    for phase in (True, False):
        found.draw([tie for tie in found.ties if tie.early or not phase])
    found.tell()
    return copy


def copied(fn: Function) -> Function:
    """The function with parameters and operations of its own."""
    params = tuple(Param(p.type, p.name, p.donated, p.origin) for p in fn.params)
    env: Env = dict(zip(fn.params, params, strict=True))
    for old, new in env.items():
        new.sharding = old.sharding
    with (builder := Builder()):
        for op in fn.ops:
            if op.holds_regions:
                regions = {name: copied(region) for name, region in op.regions.items()}
                new = op.rebuild(mapped(op.operands, env), **regions)
                env.update(zip(op.results, new.results, strict=True))
            else:
                copy_ops((op,), env)
    return Function(fn.name, params, tuple(builder.ops), tuple(mapped(fn.results, env)))


def sharding_of(value: Value) -> Sharding:
    """What shares each axis of a value, after propagation."""
    return value.sharding or ((),) * value.type.rank


class _Spreading:
    """What is known so far, and the ties of each axis."""

    def __init__(self, mesh: Mesh, module: Module) -> None:
        self.mesh = mesh
        self.found: dict[Value, list[Axes]] = {}
        self.why: dict[Place, str] = {}
        self.closed: set[Place] = set()
        self.ties: list[Tie] = []
        self._of: defaultdict[Place, list[Tie]] = defaultdict(list)
        self.values: list[Value] = []
        main = module.main
        for fn in module.functions:
            self._function(fn)
            for p in fn.params:
                given = p.sharding if fn is main and p.sharding else _whole(p)
                self._fix(p, given, f"as the argument {p.name} lies")
            if fn is not main:
                for r in fn.results:
                    self._fix(r, _whole(r), "")
        for tie in self.ties:
            for place in tie.places:
                self._of[place].append(tie)

    # -- ties ------------------------------------------------------------------------------------

    def _function(self, fn: Function) -> None:
        self.values += fn.params
        for op in fn.ops:
            self.values += op.results
            if isinstance(op, Structured):
                self._structured(op)
                for region in op.regions.values():
                    self._function(region)
            else:
                self._plain(op)
            if isinstance(op, Shard):
                known = op.known
                checked_axes(self.mesh, tuple(axes or () for axes in known), "shard")
                for axis, axes in enumerate(known):
                    if axes is not None:
                        self._set(op, axis, axes, f"asked for at {op.origin}" if op.origin else "")
                        self.closed.add((op, axis))

    def _plain(self, op: Op) -> None:
        rule = op.factors()
        joined: defaultdict[int, list[Place]] = defaultdict(list)
        for value, places in zip((*op.operands, *op.results), rule.places, strict=True):
            for axis, factor in enumerate(places):
                if factor is not None:
                    joined[factor].append((value, axis))
        early = isinstance(op, Elementwise | IndexMap)
        for factor, places in joined.items():
            if len(places) > 1:
                self.ties.append(Tie(tuple(places), early, factor in rule.even))

    def _structured(self, op: Structured) -> None:
        seen, carries, slices = op.operands[op.seen], op.carries, op.slices
        stacked = bool(op.dataflow.length)
        for value in op.steering:
            self._fix(value, _whole(value), "")
        for j, value in enumerate(seen):
            shift = int(carries <= j < carries + slices)
            params = [region.params[j] for region in op.regions.values()]
            self._tie([(value, shift), *((p, 0) for p in params)])
            if shift:
                self.closed.add((value, 0))
        for i, result in enumerate(op.results):
            shift = int(stacked and i >= carries)
            own = [body.results[i] for body in op.giving]
            given = [(seen[i], 0)] if i < carries else []
            self._tie([(result, shift), *given, *((r, 0) for r in own)])
            if shift:
                self.closed.add((result, 0))

    def _tie(self, values: Sequence[tuple[Value, int]]) -> None:
        """The axes of values are one, from an axis of each on."""
        value, shift = values[0]
        for axis in range(value.type.rank - shift):
            places = tuple((v, axis + start) for v, start in values)
            self.ties.append(Tie(places, early=True))

    # -- what is known ---------------------------------------------------------------------------

    def _set(self, value: Value, axis: int, axes: Axes, why: str) -> None:
        known = self.found.setdefault(value, [()] * value.type.rank)
        known[axis] = axes
        self.why[value, axis] = why

    def _fix(self, value: Value, sharding: Sharding, why: str) -> None:
        for axis, axes in enumerate(sharding):
            self._set(value, axis, axes, why)
            self.closed.add((value, axis))

    def _at(self, place: Place) -> Axes:
        value, axis = place
        return self.found[value][axis] if value in self.found else ()

    def draw(self, ties: Sequence[Tie]) -> None:
        """Draw ties until nothing changes."""
        queue, allowed, waiting = deque(ties), set(ties), set(ties)
        while queue:
            tie = queue.popleft()
            waiting.discard(tie)
            for changed in self._drawn(tie):
                for other in self._of[changed]:
                    if other in allowed and other not in waiting:
                        waiting.add(other)
                        queue.append(other)

    def _drawn(self, tie: Tie) -> Iterator[Place]:
        best = max(tie.places, key=lambda place: len(self._at(place)))
        axes = self._at(best)
        if not axes:
            return
        if tie.even and not all(self.mesh.even(v.type.shape[a], axes) for v, a in tie.places):
            return
        for place in tie.places:
            known = self._at(place)
            if place in self.closed or len(known) >= len(axes) or axes[: len(known)] != known:
                continue
            value, axis = place
            new = self._free(value, axis, axes)
            if len(new) > len(known):
                self._set(value, axis, new, self.why.get(best, ""))
                yield place

    def _free(self, value: Value, axis: int, axes: Axes) -> Axes:
        """The first of the axes that nothing else shares in this value, and that have elements."""
        used = {a for i, s in enumerate(self.found.get(value, ())) if i != axis for a in s}
        size, count = value.type.shape[axis], 0
        for a in axes:
            more = axes[: count + 1]
            if a in used or (isinstance(size, int) and size < self.mesh.parts(more)):
                break
            count += 1
        return axes[:count]

    def tell(self) -> None:
        """Note on each value what is known of it."""
        for value in self.values:
            known = tuple(self.found.get(value, ()))
            shared = any(known) and value.dtype is not TAPE
            value.sharding = known if shared else None
            if shared:
                value.sharded_by = tuple(
                    self.why.get((value, axis), "") for axis in range(len(known))
                )


def _whole(value: Value) -> Sharding:
    return ((),) * value.type.rank
