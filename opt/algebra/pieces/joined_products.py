"""The pass that computes products which share an operand as one wide product.

    x [A B C] = [x A, x B, x C]   and   [A; B; C] x = [A x; B x; C x]

Neighbouring windows of one array, as ``x @ w[:, :n]`` and ``x @ w[:, n:]``, are joined already.
Weights that a loop finds the same on every trip, as those of the gates of an LSTM, are joined once
in front of it. A wide product pays where the products are narrow: it reads what they share once,
fills whole vectors, and is started once. It costs where a formula that would have been computed
along with a product becomes a loop of its own. ``Group.pays`` weighs these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dlvm import cost
from dlvm.cost import size_in_bytes, typical, work
from dlvm.ir import Builder, Dim, Function, Op, Param, Rule, Value
from dlvm.ir.decisions import allowed
from dlvm.ir.numerics import LICENSED, ROUNDING, current_mode
from dlvm.ir.rewrite import Env, mapped, transform
from dlvm.ops import Broadcast, Concat, Matmul, Permute, Reshape, Slice, Structured, transposed
from dlvm.ops.families import Elementwise, Reduction
from dlvm.ops.patterns import is_transpose
from dlvm.opt.regions.values import widened
from dlvm.passes import function_pass

Users = Mapping[Value, Sequence[Op]]
VIEWS = Permute | Reshape | Broadcast | Slice
"""Operations through which kernels read."""


def part_of_wide_product(op: Op) -> Value | None:
    """x W[:, J] = (x W)[:, J], and W[I] x = (W x)[I]: for several parts of one product."""
    for right in (True, False):
        piece = _Piece.of(op, right) if isinstance(op, Matmul) else None
        if piece and isinstance(piece.value, Slice) and _along(piece.value) == piece.axis:
            start, size = (row[piece.axis] for row in (piece.value.starts, piece.value.sizes))
            return piece.part(piece.times(piece.value.x, piece.shared), start, size)
    return None


LAW = Rule(
    "part_of_wide_product",
    (Matmul,),
    part_of_wide_product,
    (
        lambda x, w: Matmul(x, Slice(w, (0, 1), (w.shape[0], 2), (1, 1))),
        lambda x, w: Matmul(Slice(transposed(w), (1, 0), (2, w.shape[0]), (1, 1)), transposed(x)),
        lambda x, w: Matmul(x, transposed(Slice(transposed(w), (1, 0), (2, w.shape[0]), (1, 1)))),
    ),
    ("n[M,K]", "n[K,5]"),
    ROUNDING,
    " ".join((part_of_wide_product.__doc__ or "").split()),
    weighed=True,
)
"""Never cheaper for a product alone, so it is not registered: the pass applies it to groups."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """A product as one of several that share an operand; ``value`` is the other, as it lies."""

    op: Matmul
    right: bool
    turned: bool
    value: Value

    @staticmethod
    def of(op: Matmul, right: bool) -> _Piece:
        """The product with its right operand, or its left one, as what differs."""
        x = op.y if right else op.x
        turned = is_transpose(x)
        return _Piece(op, right, turned, x.x if turned and isinstance(x, Permute) else x)

    @property
    def shared(self) -> Value:
        """The other operand."""
        return self.op.x if self.right else self.op.y

    @property
    def axis(self) -> int:
        """The axis of ``value`` that becomes one of the result."""
        return self.value.type.rank - 1 - (self.right == self.turned)

    @property
    def likeness(self) -> object:
        """What pieces have in common that can be joined."""
        sizes = self.value.shape[: self.axis], self.value.shape[self.axis + 1 :]
        return self.right, self.turned, self.shared, sizes

    @property
    def placed(self) -> bool:
        """Whether the start and the size of a window are numbers."""
        return isinstance(self.value, Slice) and all(isinstance(n, int) for n in self._place)

    @property
    def place(self) -> tuple[int, int]:
        """The start and the size of a window, which are numbers."""
        start, size = self._place
        return int(str(start)), int(str(size))

    @property
    def _place(self) -> tuple[Dim, Dim]:
        assert isinstance(self.value, Slice)
        return self.value.starts[self.axis], self.value.sizes[self.axis]

    def times(self, whole: Value, shared: Value) -> Value:
        """The product with another value in the place of this one."""
        x = transposed(whole) if self.turned else whole
        return Matmul(shared, x) if self.right else Matmul(x, shared)

    def part(self, wide: Value, start: Dim, size: Dim) -> Value:
        """The columns, or the rows, of a wide product that are this one."""
        axis = wide.type.rank - 1 - (not self.right)
        starts: list[Dim] = [0] * wide.type.rank
        sizes = list(wide.shape)
        starts[axis], sizes[axis] = start, size
        return Slice(wide, tuple(starts), tuple(sizes), (1,) * wide.type.rank)


def _along(part: Slice) -> int | None:
    """The axis along which a window is cut out, where that is one and nothing is left out."""
    cut = [a for a, n in enumerate(part.sizes) if n != part.x.shape[a]]
    return cut[0] if len(cut) == 1 and set(part.steps) == {1} else None


@dataclass(slots=True)
class _Group:
    """Products of one value with neighbouring windows of another, or with invariant values."""

    pieces: list[_Piece] = field(default_factory=lambda: [])

    @property
    def axis(self) -> int:
        """The axis along which the factors are joined."""
        return self.pieces[0].axis

    def joined(self, env: Env) -> Value:
        """The factors as one."""
        return _together([env.get(p.value, p.value) for p in self.pieces], self.axis)

    def copied(self, env: Env) -> int:
        """The bytes that are copied when the factors are joined."""
        with Builder():  # which takes what is only tried
            whole = self.joined(env)
        return typical(size_in_bytes(whole.type)) if isinstance(whole, Concat) else 0

    def part(self, piece: _Piece, wide: Value) -> Value:
        """What one of the products is of all of them."""
        before = self.pieces[: self.pieces.index(piece)]
        start: Dim = sum((p.value.shape[p.axis] for p in before), 0)
        return piece.part(wide, start, piece.value.shape[piece.axis])

    def allowed(self) -> bool:
        """Whether the change may be made."""
        ops = [p.op for p in self.pieces]
        return allowed(part_of_wide_product, ops, f"{len(ops)} products as one")

    def pays(self, fn: Function, users: Users, trips: int = 1, copied: int = 0) -> bool:
        """Whether one product saves a part of the time of all, as estimated by ``dlvm.cost``.

        What the products share is read once. Formulas of elements that were computed along with a
        product read the wide one in loops of their own: for each such loop a product is stored
        that was not stored before.
        """
        ops = [piece.op for piece in self.pieces]
        if len(ops) < 2:
            return False
        loops = _loops(fn, ops, users)
        saved = (len(ops) - 1) * typical(size_in_bytes(self.pieces[0].shared.type))
        saved -= sum(typical(size_in_bytes(op.type)) for op in loops)
        each = cost.STEP * saved + cost.LAUNCH * (len(ops) - 1 - len(loops))
        before = sum(work(op).time for op in ops) + cost.LAUNCH * len(ops)
        return (each * trips - cost.STEP * 2 * copied) * cost.WORTH > before * trips


def _loops(fn: Function, products: Sequence[Matmul], users: Users) -> list[Matmul]:
    """A product for each loop of formulas that reads some of them, or copies one to a result."""
    results = set(fn.results)
    claimed: set[Value] = set()
    found: list[Matmul] = []
    for op in products:
        seen, reads = _formulas(op, users)
        reads = reads or not results.isdisjoint(seen)
        if reads and claimed.isdisjoint(seen):
            found.append(op)
        claimed |= seen
    return found


def _formulas(value: Value, users: Users) -> tuple[set[Value], bool]:
    """What is computed of a value element by element, and whether anything is."""
    pending, seen, reads = [value], {value}, False
    while pending:
        for op in users.get(pending.pop(), ()):
            if op not in seen and isinstance(op, VIEWS | Elementwise):
                seen.add(op)
                pending.append(op)
            reads = reads or isinstance(op, Elementwise | Reduction)
    return seen, reads


@function_pass
def widen_products(fn: Function) -> Function:
    """Compute products that share an operand as one wide product, where that is faster."""
    if ROUNDING not in LICENSED[current_mode()]:
        return fn

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        return _widened_loop(op, env) if op.dataflow.loops and op.dataflow.captured else None

    return transform(_widened(fn), visit, on=Structured)


# -- windows of one array ------------------------------------------------------------------------


def _widened(fn: Function) -> Function:
    """The function with products of neighbouring windows joined."""
    if Matmul not in fn.kinds or Slice not in fn.kinds:
        return fn
    users = _users(fn)
    return _rewritten(fn, [g for g in _runs(fn) if g.pays(fn, users) and g.allowed()], {})


def _runs(fn: Function) -> Iterable[_Group]:
    """The longest runs of products with windows that follow one another."""
    by_array: dict[object, list[_Piece]] = defaultdict(list)
    taken: set[Op] = set()
    for op in fn.ops:
        if not isinstance(op, Matmul):
            continue
        for right in (True, False):
            piece = _Piece.of(op, right)
            if isinstance(piece.value, Slice) and _along(piece.value) == piece.axis:
                by_array[right, piece.turned, piece.shared, piece.value.x].append(piece)
    for pieces in by_array.values():
        for run in _neighbours([p for p in pieces if p.op not in taken and p.placed]):
            taken.update(p.op for p in run)
            yield _Group(run)


def _neighbours(pieces: Sequence[_Piece]) -> Iterable[list[_Piece]]:
    """Pieces in order, cut where a window does not start at the end of the one before."""
    run: list[_Piece] = []
    for piece in sorted(pieces, key=lambda p: p.place[0]):
        if run and piece.place[0] != sum(run[-1].place):
            yield run
            run = []
        run.append(piece)
    yield run


# -- what is the same on every trip --------------------------------------------------------------


def _widened_loop(op: Structured, env: Env) -> Iterable[Value] | None:
    """A loop to which invariant factors are given as one."""
    (body,) = op.giving
    varying = op.carries + op.slices
    inputs = body.params[varying:]
    values = op.operands[op.seen][varying:]
    groups = _invariant_groups(op, body, dict(zip(inputs, values, strict=True)))
    if not groups:
        return None
    operands = mapped(op.operands, env)
    outside: Env = dict(zip(inputs, operands[op.seen][varying:], strict=True))
    joined = [g.joined(outside) for g in groups]
    params = [Param(v.type, f"joined{i}") for i, v in enumerate(joined)]
    new = _rewritten(body, groups, {id(g): p for g, p in zip(groups, params, strict=True)})
    regions = {op.dataflow.bodies[0]: replace(new, params=(*body.params, *params))}
    if op.test is not None:
        regions[op.dataflow.test] = widened(op.test, [Param(p.type, p.name) for p in params], {})
    return op.regrouped(operands, regions, joined).results


def _invariant_groups(op: Structured, body: Function, outside: Env) -> list[_Group]:
    """The groups of products of one value with values that are the same on every trip."""
    taken: set[Op] = set()
    groups: list[_Group] = []
    for right in (True, False):
        found: dict[object, _Group] = defaultdict(_Group)
        for o in body.ops:
            if isinstance(o, Matmul) and o not in taken:
                piece = _Piece.of(o, right)
                if piece.value in outside:
                    found[piece.likeness].pieces.append(piece)
        groups += (g for g in found.values() if len(g.pieces) > 1)
        taken.update(p.op for g in groups for p in g.pieces)
    users, trips = _users(body), typical(op.trips)
    return [g for g in groups if g.pays(body, users, trips, g.copied(outside)) and g.allowed()]


# -- both ------------------------------------------------------------------------------------------


def _users(fn: Function) -> Users:
    found: dict[Value, list[Op]] = defaultdict(list)
    for op in fn.ops:
        for v in set(op.operands):
            found[v].append(op)
    return found


def _rewritten(fn: Function, groups: Sequence[_Group], given: Mapping[int, Value]) -> Function:
    """The function with a wide product in the place of the first product of each group.

    ``given`` are the joined factors of groups, where they are not joined here.
    """
    mine: dict[Op, tuple[_Group, _Piece]] = {p.op: (g, p) for g in groups for p in g.pieces}
    wide: dict[int, Value] = {}

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        if op not in mine:
            return None
        group, piece = mine[op]
        if id(group) not in wide:
            whole = given[id(group)] if given else group.joined(env)
            wide[id(group)] = piece.times(whole, env.get(piece.shared, piece.shared))
        return (group.part(piece, wide[id(group)]),)

    return transform(fn, visit, on=Matmul) if mine else fn


def _together(values: Sequence[Value], axis: int) -> Value:
    """Values one after the other; neighbouring windows of one array are a window of that."""
    first, end = values[0], 0
    for v in values:
        if not isinstance(v, Slice) or not isinstance(first, Slice) or v.x is not first.x:
            return Concat(tuple(values), axis)
        if _along(v) != axis or v.starts[axis] != first.starts[axis] + end:
            return Concat(tuple(values), axis)
        end = end + v.sizes[axis]
    assert isinstance(first, Slice)
    sizes = (*first.sizes[:axis], end, *first.sizes[axis + 1 :])
    return first.x if sizes == first.x.shape else Slice(first.x, first.starts, sizes, first.steps)
