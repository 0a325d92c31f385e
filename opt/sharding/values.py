"""What a rank has of each value of a function, and how it comes to other pieces of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dlvm.ir import Op, TensorType, Value
from dlvm.ir.sharding.factors import Factors, Places
from dlvm.ir.sharding.mesh import Axes, Mesh, Sharding
from dlvm.ops.families import IndexMap, rearranges

from .moves import moved, moving
from .propagation import sharding_of

Chosen = Mapping[int, Axes]


@dataclass
class Local:
    """What a rank has of a value: its piece, and other pieces that were made of it."""

    type: TensorType
    value: Value
    sharding: Sharding
    others: dict[Sharding, Value] = field(default_factory=dict[Sharding, Value])


@dataclass(frozen=True, slots=True)
class _Again:
    """A movement of elements that is written once more, and how its operands lie there."""

    op: IndexMap
    operands: Sequence[Sharding]


DEPTH = 4
"""How many movements of elements, one of another, are looked through."""


class Values:
    """The pieces that a rank has, as far as the function is written."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.env: dict[Value, Local] = {}

    def at(self, value: Value, want: Sharding) -> Value:
        """The piece of a value in another sharding."""
        local = self.env[value]
        if local.sharding == want:
            return local.value
        if want not in local.others:
            again = self._again(value, want)
            if again is not None and self._through(again) < self._directly(value, want):
                local.others[want] = self._rebuilt(again, want)
            else:
                local.others[want] = moved(
                    self.mesh, local.value, local.type.shape, local.sharding, want
                )
        return local.others[want]

    def _again(self, value: Value, want: Sharding) -> _Again | None:
        """How elements are rearranged once more for another sharding of the result."""
        if not rearranges(value):
            return None
        rule = value.factors()
        chosen = self.offered(rule, [(rule.results[0], want)], value)
        if cut(rule.results[0], chosen) != want:
            return None
        return _Again(value, [cut(places, chosen) for places in rule.operands])

    def _rebuilt(self, again: _Again, want: Sharding) -> Value:
        op = again.op
        given = [self.at(v, s) for v, s in zip(op.operands, again.operands, strict=True)]
        return op.rebuild(given, **op.resized(self.mesh.locally(op.shape, want))).results[0]

    def price(self, value: Value, want: Sharding, depth: int = DEPTH) -> float:
        """The seconds until a value lies in another sharding, in the quicker of two ways."""
        local = self.env[value]
        if want == local.sharding or want in local.others:
            return 0.0
        direct = self._directly(value, want)
        again = self._again(value, want) if depth else None
        return direct if again is None else min(direct, self._through(again, depth))

    def _directly(self, value: Value, want: Sharding) -> float:
        return moving(self.mesh.logical, value.type, self.env[value].sharding, want)

    def _through(self, again: _Again, depth: int = DEPTH) -> float:
        pairs = zip(again.op.operands, again.operands, strict=True)
        return sum(self.price(v, s, depth - 1) for v, s in pairs)

    def whole(self, value: Value) -> Value:
        """All of a value."""
        return self.at(value, ((),) * value.type.rank)

    def give(self, value: Value, piece: Value, sharding: Sharding) -> None:
        """Note the piece of a value, moved to where the value is to lie."""
        self.env[value] = Local(value.type, piece, sharding)
        want = sharding_of(value)
        if want != sharding:
            self.env[value] = Local(value.type, self.at(value, want), want, {sharding: piece})

    def offered(
        self, rule: Factors, order: Sequence[tuple[Places, Sharding]], op: Op
    ) -> dict[int, Axes]:
        """The first axes that are offered for each factor, as far as they can be shared."""
        found: dict[int, Axes] = {}
        used: set[str] = set()
        for places, sharding in order:
            for factor, axes in zip(places, sharding, strict=True):
                if factor is not None and axes and factor not in found and not used & {*axes}:
                    found[factor] = axes
                    used.update(axes)
        values = (*op.operands, *op.results)
        for factor in rule.even & found.keys():
            sizes = (
                size
                for value, places in zip(values, rule.places, strict=True)
                for size, f in zip(value.shape, places, strict=True)
                if f == factor
            )
            if not all(self.mesh.even(n, found[factor]) for n in sizes):
                del found[factor]
        words = [rule.folds[f] for f in found if f in rule.folds]
        return (
            found if len({*words}) < 2 else {f: a for f, a in found.items() if f not in rule.folds}
        )


def cut(places: Places, chosen: Chosen) -> Sharding:
    """What shares each axis, where factors are shared so."""
    return tuple(chosen.get(f, ()) if f is not None else () for f in places)
