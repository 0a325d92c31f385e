"""Folds of transposed operands: over the operand as it lies in memory, along the other axis.

A kernel reads through a transpose element by element, so ``logsumexp(s.T, axis=1)`` would read
each row along a column of ``s``. Here ``f(s') = f(s)'`` for element-wise f, from the operand to the
fold, and the fold of ``f(s)'`` is one of ``f(s)`` along the axis that the transpose put last; rows
that lie beside one another are then folded together. What is made of such values follows them, so
the two transposes of a gradient meet and cancel. A fold along rows keeps their order, so no bit
changes; one along columns, or along several axes that lie in another order, goes in that of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dlvm.ir import Dim, Function, Op, Value
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.ir.types import last_longer
from dlvm.ops import Broadcast, Permute
from dlvm.ops.families import Elementwise, Reduction

Perm = tuple[int, ...]


def turn(fn: Function) -> tuple[Function, frozenset[Op]]:
    """The function with its folds along memory, and those that go in the order of rows for all
    that: rows are what they were written over."""
    if not any(isinstance(op, Permute) for op in fn.ops):
        return fn, frozenset()
    work = _Turning(_folded(fn))
    found = transform(fn, work.visit)
    return found, frozenset(work.rowwise)


def _folded(fn: Function) -> set[Value]:
    """What reductions fold, and what that is made of element by element."""
    found: set[Value] = set()
    for op in reversed(fn.ops):
        if isinstance(op, Reduction) or (_is_formula(op) and op in found):
            found.update(op.operands)
    return found


def _is_formula(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.results == (op,)


@dataclass
class _Turning:
    """The walk over a body: what is folded, and which values have become transposes so far."""

    folded: set[Value]
    turned: set[Value] = field(default_factory=set[Value])
    rowwise: set[Op] = field(default_factory=set[Op])

    def visit(self, op: Op, env: Env) -> Iterable[Value] | None:
        """What an operation becomes, on operands that are transposes of others."""
        operands = mapped(op.operands, env)
        if isinstance(op, Permute) and operands[0] in self.turned:
            return (permuted(operands[0], op.perm),)
        follows = isinstance(op, Reduction) or op in self.folded
        if not follows and self.turned.isdisjoint(operands):
            return None
        if not (_is_formula(op) or isinstance(op, Reduction)) or op.may_raise:
            return None
        if (perm := _common(operands)) is None:
            return None
        under = [_under(x, perm) for x in operands]
        if isinstance(op, Reduction):
            return self._fold(op, under, perm)
        return (self._noted(Permute(op.rebuild(under), perm)),)

    def _fold(self, op: Reduction, under: Sequence[Value], perm: Perm) -> Iterable[Value] | None:
        """A reduction along its axes before the transpose, in another order only if it may."""
        axes = [perm[a] for a in op.axes]
        if axes != sorted(axes) and not op.pairwise:
            return None
        new = op.rebuild(under, axes=tuple(sorted(axes)))
        if op.axes[-1:] == (len(perm) - 1,):
            self.rowwise.add(new)
        kept = [p for a, p in enumerate(perm) if a not in op.axes]
        order = tuple(sorted(kept).index(p) for p in kept)
        return tuple(self._noted(permuted(r, order)) for r in new.results)

    def _noted(self, x: Value) -> Value:
        if isinstance(x, Permute):
            self.turned.add(x)
        return x


def _common(operands: Sequence[Value]) -> Perm | None:
    """The transpose that all operands share, but for those that are repeated along an axis."""
    perms = {x.perm for x in operands if isinstance(x, Permute)}
    others = (x for x in operands if not isinstance(x, Permute | Broadcast))
    if len(perms) != 1 or any(others):
        return None
    (perm,) = perms
    first = next(x for x in operands if isinstance(x, Permute))
    line, below = last_longer(first.shape), last_longer(first.x.shape)
    return perm if line is not None and perm[line] != below else None


def _under(x: Value, perm: Perm) -> Value:
    """What an operand is a transpose of."""
    if isinstance(x, Permute):
        return x.x
    assert isinstance(x, Broadcast)
    shape: list[Dim] = [0] * len(perm)
    for size, p in zip(x.shape, perm, strict=True):
        shape[p] = size
    places = [perm[a] for a in x.axes]
    order = tuple(sorted(range(len(places)), key=places.__getitem__))
    return Broadcast(permuted(x.x, order), tuple(shape), tuple(sorted(places)))


def permuted(x: Value, perm: Perm) -> Value:
    """A transpose, which may undo one."""
    if isinstance(x, Permute):
        x, perm = x.x, tuple(x.perm[p] for p in perm)
    return x if perm == tuple(range(len(perm))) else Permute(x, perm)
