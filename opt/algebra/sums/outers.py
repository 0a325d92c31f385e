"""Sums with outer products in them: numbers go to the vectors, and equal vectors meet.

    s (A + u v') + u w' = s A + u (s v + w)'

What is done to vectors costs nothing beside what is done to matrices. A sum is split, through its
signs and numbers, into what is no outer product and the outer products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from dlvm.ir import F16, Value, rearrangement
from dlvm.ops import Add, Broadcast, Mul, Neg, Reshape, Sub, Sum
from dlvm.opt.algebra.examples import outer, wide
from dlvm.opt.algebra.factors.structure import outer_of, scaled

DEEP = 16
"""Sums and numbers, one inside the other, that are looked into."""


@dataclass(frozen=True, slots=True)
class _Outer:
    """An outer product ``u v'``."""

    u: Value
    v: Value

    def like(self, other: _Outer) -> bool:
        """Whether both have equal vectors on one side."""
        return self.u is other.u or self.v is other.v

    def plus(self, other: _Outer) -> _Outer:
        """The sum of two that are alike."""
        if self.u is other.u:
            return replace(self, v=Add(self.v, other.v))
        return replace(self, u=Add(self.u, other.u))


@dataclass(slots=True)
class _Split:
    """The outer products of a sum, and all else as one matrix."""

    rest: Value | None
    outers: list[_Outer] = field(default_factory=lambda: [])

    @staticmethod
    def of(value: Value, deep: int = DEEP) -> _Split:
        """A value through its sums, signs and numbers."""
        if deep and isinstance(value, Add | Sub):
            x, y = (_Split.of(v, deep - 1) for v in value.operands)
            return x.plus(y if isinstance(value, Add) else y.negative())
        if deep and isinstance(value, Neg):
            return _Split.of(value.x, deep - 1).negative()
        if deep and (found := scaled(value)) is not None:
            return _Split.of(found[0], deep - 1).times(found[1])
        vectors = outer_of(value)
        return _Split(value) if vectors is None else _Split(None, [_Outer(*map(_vector, vectors))])

    def plus(self, other: _Split) -> _Split:
        """The sum of both."""
        rests = [r for r in (self.rest, other.rest) if r is not None]
        rest = Add(*rests) if len(rests) == 2 else next(iter(rests), None)
        return _Split(rest, [*self.outers, *other.outers])

    def negative(self) -> _Split:
        """The same with the other sign."""
        rest = None if self.rest is None else Neg(self.rest)
        return _Split(rest, [replace(o, v=Neg(o.v)) for o in self.outers])

    def times(self, repeated: Value) -> _Split:
        """The same times a number that is repeated."""
        rest = None if self.rest is None else Mul(self.rest, repeated)
        assert isinstance(repeated, Broadcast)
        vectors = (Mul(o.v, Broadcast(repeated.x, o.v.shape, ())) for o in self.outers)
        return _Split(rest, [replace(o, v=v) for o, v in zip(self.outers, vectors, strict=True)])


def _vector(x: Value) -> Value:
    """A vector before it was made a row or a column and a vector again."""
    inner = x
    while isinstance(inner, Reshape):
        inner = inner.x
    return inner if inner.shape == x.shape else x


Four = Callable[[Value, Value, Value, Value], Value]


def _floats(example: Four) -> Four:
    """An example of the values, halves as f32, in which numbers keep their place."""
    return lambda a, u, v, w: example(wide(a), wide(u), wide(v), wide(w))


@rearrangement(
    Add,
    Sub,
    example=(
        _floats(lambda a, u, v, w: Add(Sub(a, outer(u, v)) * 3.0, outer(u, w))),
        _floats(lambda _, u, v, w: Add(outer(u, v), outer(w, v))),
        _floats(lambda a, u, v, w: Add(a, outer(u, v) * 3.0)),
        _floats(lambda a, u, v, w: Sub(Sub(a, outer(u, v)), outer(u, w))),
        _floats(lambda _, u, v, w: Sub(outer(u, v), Neg(outer(w, v)) * 3.0)),
    ),
    given=("f[N,N]", "f[N]", "f[N]", "f[N]"),
)
def outer_products_of_sum(op: Add | Sub) -> Value | None:
    """u v' + u w' = u (v + w)', and s (u v') = u (s v)', wherever in a sum or a difference."""
    if op.type.rank != 2 or op.dtype is F16:
        return None
    split = _Split.of(op)
    outers = _merged(split.outers)
    if not outers:
        return None
    each = (outer(o.u, o.v) for o in outers)
    total = next(each) if split.rest is None else split.rest
    for value in each:
        total = Add(total, value)
    return total


def _merged(outers: Sequence[_Outer]) -> list[_Outer]:
    """Outer products of which those with equal vectors are one."""
    found: list[_Outer] = []
    for new in outers:
        at = next((i for i, o in enumerate(found) if o.like(new)), None)
        if at is None:
            found.append(new)
        else:
            found[at] = found[at].plus(new)
    return found


@rearrangement(
    Mul,
    example=lambda x, y: _twice(wide(x), wide(y)),
    given=("f[M,N]", "f[]"),
)
def numbers_in_another_order(op: Mul) -> Value | None:
    """(x s) t = (x t) s for numbers s and t: pays where x t is computed anyway."""
    if op.dtype is F16 or (whole := scaled(op)) is None or (inner := scaled(whole[0])) is None:
        return None
    return Mul(Mul(inner[0], whole[1]), inner[1])


def _twice(x: Value, number: Value) -> Value:
    """For the example: x times a number that is made of another multiple, times that one's."""
    repeated = Broadcast(number, x.shape, ())
    total = Broadcast(Sum(Mul(x, repeated), (0, 1)), x.shape, ())
    return Mul(Mul(x, total), repeated)
