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
from dlvm.ir.dims import at_least, product
from dlvm.ops import Matmul, Pad, Patches, Permute, Reshape, Slice, Sum, Unpatch


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


@rearrangement(
    Sum,
    example=(
        lambda x, w, y, v: passed_on(x, w, (1, 3), (2,)),
        lambda x, w, y, v: passed_on(y, v, (2, 4, 4), (2, 2)),
    ),
    given=("n[3,2]", "n[2,4]", "n[32,1]", "n[1,4]"),
)
def sums_of_windows(op: Sum) -> Value | None:
    """What windows of images pass on is added up by a product with other windows."""
    found = _Passed.of(op)
    return None if found is None else found.windows((0,) * len(found.taps), found.extents)


@rearrangement(
    Slice,
    example=lambda y, v: Slice(
        passed_on(y, v, (2, 4, 4), (2, 2)), (0, 1, 1, 0), (2, 3, 3, 1), (1, 1, 1, 1)
    ),
    given=("n[32,3]", "n[3,4]"),
)
def part_of_sums_of_windows(op: Slice) -> Value | None:
    """The same for the images without what was put around them."""
    found = _Passed.of(op.x)
    if found is None or any(step != 1 for step in op.steps):
        return None
    if (op.sizes[0], op.sizes[-1]) != (op.x.shape[0], op.x.shape[-1]):
        return None
    return found.windows(op.starts[1:-1], op.sizes[1:-1])


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
        rows = zip(self.taps, self.dilations, starts, sizes, self.places, strict=True)
        low: list[Dim] = []
        high: list[Dim] = []
        for tap, dilation, start, size, place in rows:
            span = (tap - 1) * dilation
            low.append(span - start)
            high.append(size + span - low[-1] - place)
        if not all(at_least(n, 0) for n in (*low, *high)):
            return None
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
