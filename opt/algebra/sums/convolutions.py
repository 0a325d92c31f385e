"""The gradient of a convolution by its images as another convolution.

    dx[y] = sum over p of dy[y - p] w[p]'   =   sum over p of (dy, padded)[y + p] w[last - p]'

As it is derived, every window gets what its places pass on, an array as large as all windows
together, which are then added up. Where windows step by one, the windows of what is passed on make
the same sums as one product, whose operand is no array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dlvm.ir import Dim, Value, rearrangement
from dlvm.ir.sizes.dims import at_least, product
from dlvm.ops import Broadcast, Matmul, Pad, Patches, Permute, Reshape, Slice, Sum, Unpatch


def passed_on(rows: Value, w: Value, places: Sequence[int], taps: tuple[int, ...]) -> Value:
    """What a convolution over one or two axes passes on to its images, as it is derived."""
    count, channels = len(taps), int(str(w.shape[1])) // int(str(product(taps)))
    opened = Reshape(Matmul(rows, w), (*places, *taps, channels))
    axes = tuple(range(1, count + 1))
    windows = Permute(opened, (0, *axes, 2 * count + 1, *(a + count for a in axes)))
    extents = tuple(q + p - 1 for q, p in zip(places[1:], taps, strict=True))
    ones = (1,) * count
    placed = Unpatch(windows, axes, extents, ones, ones)
    return Sum(placed, tuple(range(count + 2, 2 * count + 2)))


def passed_on_first(
    w: Value, columns: Value, places: Sequence[int], taps: tuple[int, ...]
) -> Value:
    """The same where channels come first: weights times columns, of one image or of several."""
    count, channels = len(taps), int(str(w.shape[-2])) // int(str(product(taps)))
    batch = columns.shape[0]
    if w.type.rank == 2:
        w = Broadcast(w, (batch, *w.shape), (1, 2))
    opened = Reshape(Matmul(w, columns), (batch, *taps, channels, *places))
    behind = range(count + 2, 2 * count + 2)
    windows = Permute(opened, (0, count + 1, *behind, *range(1, count + 1)))
    extents = tuple(q + p - 1 for q, p in zip(places, taps, strict=True))
    ones = (1,) * count
    placed = Unpatch(windows, tuple(range(2, count + 2)), extents, ones, ones)
    return Sum(placed, tuple(range(count + 2, 2 * count + 2)))


@rearrangement(
    Sum,
    example=(
        lambda x, w, y, v, u: passed_on(x, w, (1, 3), (2,)),
        lambda x, w, y, v, u: passed_on(y, v, (2, 4, 4), (2, 2)),
        lambda x, w, y, v, u: passed_on_first(Permute(v, (1, 0)), u, (4, 4), (2, 2)),
    ),
    given=("n[3,2]", "n[2,4]", "n[32,1]", "n[1,4]", "n[2,1,16]"),
)
def sums_of_windows(op: Sum) -> Value | None:
    """What windows of images pass on is added up by a product with other windows."""
    found = _Passed.of(op) or _PassedFirst.of(op)
    return None if found is None else found.windows((0,) * len(found.taps), found.extents)


@rearrangement(
    Slice,
    example=(
        lambda y, v: Slice(
            passed_on(y, v, (2, 4, 4), (2, 2)), (0, 1, 1, 0), (2, 3, 3, 1), (1, 1, 1, 1)
        ),
        lambda y, v: Slice(
            passed_on(y, v, (2, 4, 4), (2, 2)), (0, 0, 1, 0), (2, 4, 4, 1), (1, 1, 1, 1)
        ),
    ),
    given=("n[32,3]", "n[3,4]"),
)
def part_of_sums_of_windows(op: Slice) -> Value | None:
    """The same for the images without what was put around them."""
    found = _Passed.of(op.x) or _PassedFirst.of(op.x)
    if found is None or any(step != 1 for step in op.steps):
        return None
    space = found.space
    rest = [a for a in range(op.type.rank) if a not in range(op.type.rank)[space]]
    if any(op.sizes[a] != op.x.shape[a] for a in rest):
        return None
    return found.windows(op.starts[space], op.sizes[space])


@dataclass(frozen=True, slots=True)
class _Passed:
    """Rows of ``dy``, one for each place, times weights that give each tap its channels."""

    dy: Value
    weights: Value
    batch: Dim
    places: tuple[Dim, ...]
    taps: tuple[Dim, ...]
    channels: Dim
    extents: tuple[Dim, ...]
    dilations: tuple[int, ...]
    space = slice(1, -1)
    """The axes of places in the images."""

    @staticmethod
    def of(op: Value) -> _Passed | None:
        """What is added up, if it is a product that is spread over windows which step by one."""
        match op:
            case Sum(Unpatch(z, axes, extents, steps, dilations), over):
                count = len(axes)
            case _:
                return None
        first = z.type.rank - count
        last = tuple(range(first, z.type.rank))
        if over != last or axes != tuple(range(1, first - 1)) or any(s != 1 for s in steps):
            return None
        match _rows_first(z, count):
            case Reshape(Matmul(dy, weights)) as opened if dy.type.rank == 2:
                pass
            case _:
                return None
        if opened is z and z.shape[first - 1] != 1:
            return None
        batch, *places, channels = z.shape[:first]
        if product((batch, *places)) != dy.shape[0]:
            return None
        sizes = z.shape[first:]
        return _Passed(dy, weights, batch, tuple(places), sizes, channels, extents, dilations)

    def windows(self, starts: Sequence[Dim], sizes: Sequence[Dim]) -> Value | None:
        """The product that gives some of the places of the images."""
        around = _around(self.taps, self.dilations, starts, sizes, self.places)
        if around is None:
            return None
        low, high = around
        out, count = self.dy.shape[1], len(self.taps)
        axes, ones = tuple(range(1, count + 1)), (1,) * count
        dy = Reshape(self.dy, (self.batch, *self.places, out))
        padded = Pad(dy, (0, *low, 0), (0, *high, 0))
        found = Patches(padded, axes, self.taps, ones, self.dilations)
        rows_ = Permute(found, (0, *axes, *(a + count + 1 for a in axes), count + 1))
        taps = product((*self.taps, out))
        rows_ = Reshape(rows_, (product((self.batch, *sizes)), taps))
        return Reshape(Matmul(rows_, self._flipped(taps)), (self.batch, *sizes, self.channels))

    def _flipped(self, taps: Dim) -> Value:
        """The weights of each tap in the place of its counterpart."""
        out, count = self.dy.shape[1], len(self.taps)
        w = Reshape(self.weights, (out, *self.taps, self.channels))
        starts = (0, *(n - 1 for n in self.taps), 0)
        w = Slice(w, starts, w.shape, (1, *(-1 for _ in self.taps), 1))
        w = Permute(w, (*range(1, count + 1), 0, count + 1))
        return Reshape(w, (taps, self.channels))


def _rows_first(z: Value, count: int) -> Value:
    """Windows with their channels behind the taps, as products have them."""
    axes = tuple(range(1, count + 1))
    behind = (0, *axes, 2 * count + 1, *(a + count for a in axes))
    match z:
        case Permute(x, perm) if perm == behind:
            return x
        case _:
            return z


@dataclass(frozen=True, slots=True)
class _PassedFirst:
    """Weights that give each tap its channels, times columns of ``dy``, one for each place."""

    dy: Value
    weights: Value
    places: tuple[Dim, ...]
    taps: tuple[Dim, ...]
    channels: Dim
    extents: tuple[Dim, ...]
    dilations: tuple[int, ...]
    space = slice(2, None)

    @staticmethod
    def of(op: Value) -> _PassedFirst | None:
        """What is added up, if it is a product that is spread over windows which step by one."""
        match op:
            case Sum(Unpatch(z, axes, extents, steps, dilations), over):
                count = len(axes)
            case _:
                return None
        space, last = tuple(range(2, count + 2)), tuple(range(count + 2, 2 * count + 2))
        if (over, axes) != (last, space) or any(s != 1 for s in steps):
            return None
        order = (0, count + 1, *last, *range(1, count + 1))
        match z:
            case Permute(Reshape(Matmul(weights, dy)), perm) if perm == order:
                pass
            case _:
                return None
        taps, channels = z.shape[count + 2 :], z.shape[1]
        places = z.shape[2 : count + 2]
        whole = (z.shape[0], product((*taps, channels)), product(places))
        if (dy.shape[0], weights.shape[-2], dy.shape[-1]) != whole:
            return None
        return _PassedFirst(dy, weights, places, taps, channels, extents, dilations)

    def windows(self, starts: Sequence[Dim], sizes: Sequence[Dim]) -> Value | None:
        """The product that gives some of the places of the images."""
        around = _around(self.taps, self.dilations, starts, sizes, self.places)
        if around is None:
            return None
        low, high = around
        (batch, out, _), count = self.dy.shape, len(self.taps)
        axes, ones = tuple(range(2, count + 2)), (1,) * count
        padded = Pad(Reshape(self.dy, (batch, out, *self.places)), (0, 0, *low), (0, 0, *high))
        found = Patches(padded, axes, self.taps, ones, self.dilations)
        columns = Permute(found, (0, *(a + count for a in axes), 1, *axes))
        columns = Reshape(columns, (batch, product((*self.taps, out)), product(tuple(sizes))))
        return Reshape(Matmul(self._flipped(), columns), (batch, self.channels, *sizes))

    def _flipped(self) -> Value:
        """The weights of each tap in the place of its counterpart, of every image."""
        weights, count = self.weights, len(self.taps)
        batch, out = weights.shape[0], weights.shape[-1]
        match weights:
            case Permute(Broadcast(w, _, (1, 2)), (0, 2, 1)):
                weights = Permute(w, (1, 0))
            case Broadcast(w, _, (1, 2)):
                weights = w
            case _:
                pass
        before = weights.shape[:-2]
        first = len(before)
        w = Reshape(weights, (*before, *self.taps, self.channels, out))
        starts = (*(0 for _ in before), *(n - 1 for n in self.taps), 0, 0)
        steps = (*(1 for _ in before), *(-1 for _ in self.taps), 1, 1)
        w = Slice(w, starts, w.shape, steps)
        order = (first + count, *range(first, first + count), first + count + 1)
        w = Reshape(
            Permute(w, (*range(first), *order)),
            (*before, self.channels, product((*self.taps, out))),
        )
        return w if before else Broadcast(w, (batch, *w.shape), (1, 2))


def _around(
    taps: Sequence[Dim],
    dilations: Sequence[int],
    starts: Sequence[Dim],
    sizes: Sequence[Dim],
    places: Sequence[Dim],
) -> tuple[list[Dim], list[Dim]] | None:
    """What is put around the places that pass something on, for some of the places of images."""
    low: list[Dim] = []
    high: list[Dim] = []
    for tap, dilation, start, size, place in zip(
        taps, dilations, starts, sizes, places, strict=True
    ):
        span = (tap - 1) * dilation
        low.append(span - start)
        high.append(size + span - low[-1] - place)
    return (low, high) if all(at_least(n, 0) for n in (*low, *high)) else None
