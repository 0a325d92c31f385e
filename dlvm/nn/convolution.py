"""Convolutions over one to three spatial axes, as products over sliding windows.

The windows of the images become the rows of one matrix, the weights its other factor; where
channels come first in memory they are the columns of a matrix for each image, and the result lies
as it is wanted. With groups there is such a product for each. Where a group is one or two channels
wide, such products would be too narrow, and the taps of the window are added one by one over all
groups at once. Derivatives are those of windows, products and sums.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import known_dtype, shape_of, shown_shape, staged
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim
from dlvm.ir.sizes.dims import at_least, product
from dlvm.ops.arrays.patches import positions, span

from .precision import wide
from .spatial import LAYOUTS, Pair, must_fit, numbers, padded, paddings, whole, wrong_padding

AXES = "DHW"
REVERSED = ("SAME", "VALID")
NARROW = 2
"""Input channels of a group up to which sums over taps were faster than products: 2 to 20 times
with 1, 2 times with 2, equal with 4 (f32, images of 28 to 112 places a side)."""
MANY = 8
"""Groups of more than one channel from which the former holds."""
FEW_PLACES = 255
"""Places of an image up to which several images make one product, whose weights are packed once.

The gradient of 3 x 3 windows of eight images of 256 channels and 14 x 14 places took 66 ms in one
product and 89 in one for each, of 64 channels and 56 x 56 places 68 and 64 (f32, one thread).
"""
FEW_ROWS = 16
"""Outputs of each of several groups from which on: 32 groups of 8, 14 x 14 places, took 0.26 ms in
products of all places and 0.38 ms in one for each image, 4 groups of 32, 28 x 28, 0.74 and 0.72."""
TERMS = 64
"""Most terms of a sum over taps, which is a program of that length: 7 x 7 taps compile in 1.3 s."""


@exported("nn.conv")
def conv(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = "SAME",
    dilation: Any = 1,
    input_dilation: Any = 1,
    groups: int = 1,
    layout: Any = "channels_last",
) -> Any:
    """Each window of the images ``x``, times the weights ``w``, summed: ``lax``'s convolution.

    ``y[n, q, o] = sum over p, c of x[n, q*stride + p*dilation, c] * w[p, c, o]`` over 1 to 3
    spatial axes. As in all libraries for networks the window is not flipped.

    - By default channels come last: ``x`` is ``(batch, *space, in)``, ``w`` is ``(*window,
      in // groups, out)`` and the result ``(batch, *space, out)``. ``layout="channels_first"`` is
      PyTorch's: ``(batch, in, *space)``, ``(out, in // groups, *window)``. A triple names the axes
      of all three as in JAX: ``("NHWC", "HWIO", "NCHW")``.
    - ``stride``, ``dilation`` (of the window: ``rhs_dilation``) and ``input_dilation`` (zeros
      between the elements of ``x``: ``lhs_dilation``) are one number or one for each axis.
    - ``padding`` is ``"SAME"``, ``"SAME_LOWER"``, ``"VALID"``, a number, or a number or a pair
      ``(before, behind)`` for each axis; negative ones cut off.
    - ``groups`` (``feature_group_count``) divides the channels: each part of the results sees its
      part of ``x``. As many groups as channels are a depthwise convolution.
    """
    x, w = staged(x), staged(w)
    orders = _orders("conv", layout, x, w)
    x, w = _turned(x, orders[0]), _turned(w, orders[1])
    count = x.ndim - 2
    _check("conv", x, w, groups)
    steps = numbers("conv", "stride", stride, count)
    dilations = numbers("conv", "dilation", dilation, count)
    inner = numbers("conv", "input_dilation", input_dilation, count)
    spans = tuple(span(n, d) for n, d in zip(w.type.shape[:count], dilations, strict=True))
    extents = tuple(_dilated(n, d) for n, d in zip(x.type.shape[1:-1], inner, strict=True))
    pairs = paddings("conv", padding, extents, spans, steps)
    must_fit("conv", extents, pairs, spans, steps)
    slides = _Slides(inner, pairs, steps, dilations, groups, orders[0][-1] < count + 1)
    return _turned_back(_convolved(x, w, slides), orders[2])


@exported("nn.conv_transpose")
def conv_transpose(
    x: Any,
    w: Any,
    stride: Any = 1,
    padding: Any = "SAME",
    dilation: Any = 1,
    output_padding: Any = 0,
    groups: int = 1,
    layout: Any = "channels_last",
    transpose_kernel: bool = False,
) -> Any:
    """A convolution that steps by ``1/stride``: it makes images larger where ``conv`` shrinks them.

    ``stride - 1`` zeros stand between the elements of ``x``, over which ``w``, of the shape that
    ``conv`` wants, slides by 1. ``"SAME"`` gives ``size * stride`` places along an axis and
    ``"VALID"`` all that a window reaches, as in ``lax.conv_transpose``. A number or a pair is, as
    in PyTorch, the padding of the ``conv`` whose shapes are reversed: ``(size - 1) * stride +
    dilation * (window - 1) + 1 - before - behind + output_padding``.

    With ``transpose_kernel`` it is the transpose of ``conv(_, w)`` for numbered padding, and so
    the gradient of that: ``w`` is that convolution's, ``(*window, out // groups, in)``, flipped
    here. With ``layout="channels_first"`` this is ``torch.nn.functional.conv_transpose1d`` to 3d.
    """
    x, w = staged(x), staged(w)
    orders = _orders("conv_transpose", layout, x, w)
    x, w = _turned(x, orders[0]), _turned(w, orders[1])
    count = x.ndim - 2
    if transpose_kernel:
        w = _flipped(w, count, groups)
    _check("conv_transpose", x, w, groups)
    steps = numbers("conv_transpose", "stride", stride, count)
    dilations = numbers("conv_transpose", "dilation", dilation, count)
    more = numbers("conv_transpose", "output_padding", output_padding, count, 0)
    spans = tuple(span(n, d) for n, d in zip(w.type.shape[:count], dilations, strict=True))
    pairs = _reversed_padding(padding, spans, steps, more)
    extents = tuple(_dilated(n, s) for n, s in zip(x.type.shape[1:-1], steps, strict=True))
    must_fit("conv_transpose", extents, pairs, spans, (1,) * count)
    ones = (1,) * count
    slides = _Slides(steps, pairs, ones, dilations, groups, orders[0][-1] < count + 1)
    return _turned_back(_convolved(x, w, slides), orders[2])


def _reversed_padding(
    padding: Any, spans: tuple[Any, ...], steps: tuple[int, ...], more: tuple[int, ...]
) -> tuple[Pair, ...]:
    """What surrounds the dilated images."""
    if isinstance(padding, str):
        if padding not in REVERSED:
            raise wrong_padding("conv_transpose", padding, len(spans), REVERSED)
        rows = zip(spans, steps, more, strict=True)
        return tuple(_reversed(padding, *row) for row in rows)
    cut = paddings("conv_transpose", padding, spans, spans, steps)
    around = zip(spans, cut, more, strict=True)
    return tuple((k - 1 - low, k - 1 - high + m) for k, (low, high), m in around)


def _reversed(padding: str, covered: int, step: int, more: int) -> Pair:
    if padding == "VALID":
        return covered - 1, max(step, covered) - 1 + more
    total = covered + step - 2
    before = covered - 1 if step > covered - 1 else math.ceil(total / 2)
    return before, total - before + more


def _flipped(w: Any, count: int, groups: int) -> Any:
    """The weights of the transposed map: flipped in space, inputs and outputs exchanged."""
    w = xp.flip(w, axis=tuple(range(count)))
    window, (inside, out) = w.type.shape[:count], w.type.shape[count:]
    if not whole(groups) or groups < 1 or not isinstance(out, int) or out % groups:
        return xp.swapaxes(w, count, count + 1)  # which is refused as it is
    parts = xp.reshape(w, (*window, inside, groups, out // groups))
    parts = xp.permute_dims(parts, (*range(count), count + 2, count + 1, count))
    return xp.reshape(parts, (*window, out // groups, groups * inside))


# -- layouts ------------------------------------------------------------------------------------


def _orders(name: str, layout: Any, x: Any, w: Any) -> tuple[tuple[int, ...], ...]:
    """Where batch, space and channels are in the images, the weights and the result."""
    layouts: Any = layout
    rank, ranks = x.ndim, {x.ndim, w.ndim}
    if ranks - {3, 4, 5} or len(ranks) > 1:
        raise ShapeError(
            f"{name}: expected images and weights of 3, 4 or 5 axes, as many of each, found "
            f"{shown_shape(shape_of(x))} and {shown_shape(shape_of(w))}",
            origin=user_origin(),
            remedy="write x[None] for a batch of one",
        )
    space = AXES[5 - rank :]
    if layouts in LAYOUTS:
        last = layouts == "channels_last"
        names = (f"N{space}C", f"{space}IO") if last else (f"NC{space}", f"OI{space}")
        layouts = (*names, names[0])
    wanted = (f"N{space}C", f"{space}IO", f"N{space}C")
    if not isinstance(layout, str | tuple) or [*map(_letters, layouts)] != [*map(_letters, wanted)]:
        raise ArgumentError(
            f"{name}: expected layout 'channels_last', 'channels_first' or orders of the letters "
            f"{wanted}, found {layout!r}",
            origin=user_origin(),
            remedy="write layout='channels_last'",
        )
    pairs = zip(layouts, wanted, strict=True)
    return tuple(tuple(given.index(a) for a in letters) for given, letters in pairs)


def _letters(order: Any) -> list[str]:
    return sorted(order) if isinstance(order, str) else []


def _turned(x: Any, order: tuple[int, ...]) -> Any:
    """Channels last."""
    return x if order == tuple(range(len(order))) else xp.permute_dims(x, order)


def _turned_back(x: Any, order: tuple[int, ...]) -> Any:
    return _turned(x, tuple(order.index(a) for a in range(len(order))))


# -- the product --------------------------------------------------------------------------------


def _check(name: str, x: Any, w: Any, groups: Any) -> None:
    """The weights take the channels that there are, in equal groups."""
    inside, taken, out = x.type.shape[-1], w.type.shape[-2], w.type.shape[-1]
    if not whole(groups) or groups < 1:
        raise ArgumentError(
            f"{name}: expected groups of 1 or more, found {groups!r}",
            origin=user_origin(),
            remedy="write groups=1",
        )
    if inside != taken * groups or (groups > 1 and (not whole(out) or out % groups)):
        raise ShapeError(
            f"{name}: {inside} channels in {groups} groups need weights that take {groups} times "
            f"fewer and give a multiple of {groups}, found weights from {taken} to {out}",
            origin=user_origin(),
            remedy="weights have the shape (*window, in // groups, out), or state another layout",
            sides=(inside, taken * groups),
        )


def _dilated(extent: Dim, dilation: int) -> Dim:
    """How many places an axis has with zeros between its elements."""
    return extent if extent == 0 else (extent - 1) * dilation + 1


@dataclass(frozen=True, slots=True)
class _Slides:
    """How a window slides over images, and whether their channels come first in memory."""

    inner: tuple[int, ...]
    pairs: tuple[Pair, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int
    channels_first: bool

    def places(self, x: Any, w: Any) -> tuple[Dim, ...]:
        """How many windows there are along each axis of images with their channels last."""
        extents = map(_dilated, x.type.shape[1:-1], self.inner)
        rows = zip(extents, self.pairs, w.type.shape, self.steps, self.dilations, strict=False)
        return tuple(
            positions(extent + low + high, size, step, dilation)
            for extent, (low, high), size, step, dilation in rows
        )

    def opened(self, x: Any, space: int) -> Any:
        """The images, whose spatial axes begin at ``space``, with zeros inside and around."""
        for axis, dilation in enumerate(self.inner, space):
            size = x.type.shape[axis]
            if dilation > 1 and size != 0:
                before, behind = x.type.shape[:axis], x.type.shape[axis + 1 :]
                apart = [(0, 0)] * (x.ndim + 1)
                apart[axis + 1] = (0, dilation - 1)
                spread = xp.pad(xp.expand_dims(x, axis + 1), apart)
                x = xp.reshape(spread, (*before, size * dilation, *behind))
                x = x[(slice(None),) * axis + (slice(0, _dilated(size, dilation)),)]
        return padded(x, tuple(range(space, space + len(self.inner))), self.pairs)


def _convolved(x: Any, w: Any, slides: _Slides) -> Any:
    """The windows of the images times the weights, channels last."""
    by_taps = slides.groups > 1 and _is_narrow(x, w, slides)
    if not slides.channels_first:
        return (_by_taps if by_taps else _products)(slides.opened(x, 1), w, slides)
    if not (by_taps or _has_columns(x, w, slides)):
        return _products(slides.opened(x, 1), w, slides)
    opened = slides.opened(xp.moveaxis(x, -1, 1), 2)
    return xp.moveaxis((_by_taps if by_taps else _products_by_image)(opened, w, slides), 1, -1)


def _has_columns(x: Any, w: Any, slides: _Slides) -> bool:
    """Whether there is a product for each image, whose columns are places.

    Several images of few places each make one product, as the weights would be packed for each of
    them, and so do many groups that give little, as the windows would be for few rows.
    """
    if slides.groups > 1 and not at_least(w.type.shape[-1], FEW_ROWS * slides.groups):
        return False
    return x.type.shape[0] == 1 or not at_least(FEW_PLACES, product(slides.places(x, w)))


def _products(x: Any, w: Any, slides: _Slides) -> Any:
    """One product, or one for each group."""
    groups, count = slides.groups, x.ndim - 2
    window, (inside, out) = w.type.shape[:count], w.type.shape[count:]
    axes, taps = tuple(range(1, count + 1)), product((*window, inside))
    if groups > 1:
        x = xp.reshape(x, (*x.type.shape[:-1], groups, inside))
    rows = xp.sliding_window_view(x, window, axes, stride=slides.steps, dilation=slides.dilations)
    places = rows.type.shape[: count + 1]
    windows = tuple(range(rows.ndim - count, rows.ndim))
    if groups == 1:
        rows = xp.permute_dims(rows, (0, *axes, *windows, count + 1))
        found = xp.matmul(xp.reshape(rows, (product(places), taps)), xp.reshape(w, (taps, out)))
        return xp.reshape(found, (*places, out))
    rows = xp.permute_dims(rows, (count + 1, 0, *axes, *windows, count + 2))
    rows = xp.reshape(rows, (groups, product(places), taps))
    found = xp.matmul(rows, _by_group(w, groups, taps))
    found = xp.reshape(found, (groups, *places, out // groups))
    return xp.reshape(xp.moveaxis(found, 0, -2), (*places, out))


def _products_by_image(x: Any, w: Any, slides: _Slides) -> Any:
    """One product for each image, channels first: weights times columns of windows."""
    groups, count = slides.groups, x.ndim - 2
    *window, inside, out = w.type.shape
    batch, taps = x.type.shape[0], product((*window, inside))
    if groups > 1:
        x = xp.reshape(x, (batch, groups, inside, *x.type.shape[2:]))
    axes = tuple(range(x.ndim - count, x.ndim))
    columns = xp.sliding_window_view(
        x, tuple(window), axes, stride=slides.steps, dilation=slides.dilations
    )
    places = columns.type.shape[axes[0] : x.ndim]
    first = tuple(range(axes[0] - 1))
    columns = xp.permute_dims(columns, (*first, *range(x.ndim, columns.ndim), axes[0] - 1, *axes))
    columns = xp.reshape(columns, (*x.type.shape[: axes[0] - 1], taps, product(places)))
    parts = w if groups == 1 else xp.reshape(w, (*window, inside, groups, out // groups))
    parts = xp.permute_dims(parts, (*range(count + 1, parts.ndim), *range(count + 1)))
    rows = xp.reshape(parts, (*parts.type.shape[: -count - 1], taps))
    return xp.reshape(xp.matmul(rows, columns), (batch, out, *places))


def _by_group(w: Any, groups: int, taps: Dim) -> Any:
    """The weights of each group as a matrix."""
    parts = xp.reshape(w, (taps, groups, w.type.shape[-1] // groups))
    return xp.permute_dims(parts, (1, 0, 2))


# -- narrow groups --------------------------------------------------------------------------------


def _is_narrow(x: Any, w: Any, slides: _Slides) -> bool:
    """Whether the sum of each group is short enough to be written out, and each tap has a place."""
    *window, inside, _ = w.type.shape
    terms = product((*window, inside))
    if not isinstance(terms, int) or not 0 < terms <= TERMS:
        return False
    if inside > 1 and (inside > NARROW or slides.groups < MANY):
        return False
    rows = zip(x.type.shape[1:], slides.inner, slides.pairs, window, slides.dilations, strict=False)
    return all(
        at_least(_dilated(extent, i) + low + high + 1, span(n, d))
        for extent, i, (low, high), n, d in rows
    )


def _by_taps(x: Any, w: Any, slides: _Slides) -> Any:
    """``sum over p, i of x[n, q*stride + p*dilation, i, g] * w[p, i, o, g]``, term by term.

    All groups are computed at once, where the channels are. As in products, halves are summed in
    f32 and rounded once.
    """
    first, count = slides.channels_first, x.ndim - 2
    *window, inside, out = w.type.shape
    groups, each = slides.groups, out // slides.groups
    shape = (*window, inside, groups) if each == 1 else (*window, inside, groups, each)
    kind = known_dtype(xp.result_type(x, w))
    x, w = wide(x, kind), xp.reshape(wide(w, kind), shape)
    if first:
        w = xp.reshape(w, (*shape, *(1,) * count))
    elif each > 1:
        w = xp.swapaxes(w, -1, -2)
    parts = [slice(i, None, inside) for i in range(inside)]
    channels = [x[:, part] if first else x[..., part] for part in parts]
    if each > 1:  # an axis for what each group gives
        channels = [xp.expand_dims(c, 2 if first else -2) for c in channels]
    terms = [
        part[(..., *places) if first else (slice(None), *places)] * w[(*taps, i)]
        for taps, places in _places(x, window, slides)
        for i, part in enumerate(channels)
    ]
    found = xp.astype(sum(terms[1:], terms[0]), kind)
    batch, *places = found.type.shape
    if first:
        return xp.reshape(found, (batch, out, *places[-count:]))
    if each > 1:
        found = xp.swapaxes(found, -1, -2)
    return xp.reshape(found, (batch, *places[:count], out))


def _places(x: Any, window: Any, slides: _Slides) -> Iterator[tuple[tuple[int, ...], Any]]:
    """Each tap with the slices of the images that lie under it."""
    space = x.type.shape[2:] if slides.channels_first else x.type.shape[1:-1]
    rows = list(zip(space, window, slides.steps, slides.dilations, strict=True))
    for taps in itertools.product(*map(range, window)):
        yield (
            taps,
            tuple(
                slice(p * d, extent - (n - 1 - p) * d, step)
                for p, (extent, n, step, d) in zip(taps, rows, strict=True)
            ),
        )
