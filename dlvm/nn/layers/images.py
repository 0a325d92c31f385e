"""Layers of images whose channels come last: convolutions, pooling and resizing.

Options have PyTorch's names and order. A kernel size that is one number is a square window over
two spatial axes. A tuple has one number for each spatial axis, of which there are one to three.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import shown_shape
from dlvm.dsl.trace.scopes import is_sequence, user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir.sizes.dims import product
from dlvm.nn.convolution import conv, conv_transpose
from dlvm.nn.pooling import adaptive_avg_pool, adaptive_max_pool, avg_pool, max_pool
from dlvm.nn.resizing import interpolate
from dlvm.nn.spatial import whole

from .basic import evenly, keys_of
from .shown import Layer

if TYPE_CHECKING:
    from dlvm.dsl.trace.typed import Array


@dataclass(init=False, eq=False, repr=False)
class _Convolution(Layer):
    """Weights (*kernel_size, first // groups, last), a bias, and how the window slides."""

    weight: Any
    bias: Any
    stride: int | tuple[int, ...] = static()
    padding: int | str | tuple[int | tuple[int, int], ...] = static()
    dilation: int | tuple[int, ...] = static()
    groups: int = static()

    def _begin(
        self,
        key: Any,
        size: Any,
        channels: tuple[int, int],
        groups: int,
        out: int | None,
        dtype: Any,
    ) -> None:
        """The first weights from and to numbers of channels, and ``out`` numbers as a bias."""
        window, (first, last) = _window(type(self).__name__, size), channels
        _check_groups(type(self).__name__, first, last, groups)
        shape = (*window, first // groups, last)
        fan = math.prod(shape[:-1])
        keys = keys_of(key, 2)
        self.weight = evenly(keys[0], shape, fan, dtype)
        self.bias = None if out is None else evenly(keys[1], (out,), fan, dtype)
        self.groups = groups


@dataclass(init=False, eq=False, repr=False)
class Conv(_Convolution):
    """``conv`` with weights (*kernel_size, in // groups, out), as those of flax, and a bias."""

    @facing_users
    def __init__(
        self,
        key: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        channels, out = (in_channels, out_channels), out_channels if bias else None
        self._begin(key, kernel_size, channels, groups, out, dtype)
        self.stride, self.padding, self.dilation = map(_fixed, (stride, padding, dilation))

    def __call__(self, x: Any) -> Array:
        """Images (batch, *space, in) as images (batch, *space, out)."""
        found = conv(x, self.weight, self.stride, self.padding, self.dilation, groups=self.groups)
        return found if self.bias is None else xp.add(found, self.bias)


@dataclass(init=False, eq=False, repr=False)
class ConvTranspose(_Convolution):
    """``conv_transpose`` with PyTorch's meaning, and a bias: the transpose of ``conv``.

    The weights are (*kernel_size, out // groups, in), those of the ``conv`` that is transposed.
    """

    output_padding: int | tuple[int, ...] = static()

    @facing_users
    def __init__(
        self,
        key: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        channels, out = (out_channels, in_channels), out_channels if bias else None
        self._begin(key, kernel_size, channels, groups, out, dtype)
        self.stride, self.padding, self.dilation = map(_fixed, (stride, padding, dilation))
        self.output_padding = _fixed(output_padding)

    def __call__(self, x: Any) -> Array:
        """Images (batch, *space, in) as larger images (batch, *space, out)."""
        options = (self.stride, self.padding, self.dilation, self.output_padding, self.groups)
        found = conv_transpose(x, self.weight, *options, transpose_kernel=True)
        return found if self.bias is None else xp.add(found, self.bias)


def _window(name: str, size: Any) -> tuple[int, ...]:
    """The sizes of a window along its one to three axes."""
    window = tuple(size) if is_sequence(size) else (size, size)
    if not 1 <= len(window) <= 3 or not all(whole(n) and n > 0 for n in window):
        raise ArgumentError(
            f"{name}: expected kernel_size of a whole number, for two spatial axes, or of one to "
            f"three whole numbers, found {size!r}",
            origin=user_origin(),
            remedy="write kernel_size=3 for images, or kernel_size=(3,) for sequences",
        )
    return tuple(map(int, window))


def _check_groups(name: str, inside: int, out: int, groups: int) -> None:
    if groups < 1 or inside % groups or out % groups:
        raise ArgumentError(
            f"{name}: {inside} channels in and {out} out don't make {groups} groups of one size",
            origin=user_origin(),
            remedy="pass groups that divide both numbers of channels",
        )


def _fixed(option: Any) -> Any:
    """An option that can be compared: lists are tuples."""
    return tuple(map(_fixed, option)) if is_sequence(option) else option


@dataclass(eq=False, repr=False)
class _Pool(Layer):
    """Windows over the spatial axes."""

    kernel_size: int | tuple[int, ...] = static()
    stride: int | tuple[int, ...] | None = static(default=None)
    padding: int | str | tuple[int | tuple[int, int], ...] = static(default=0)


@dataclass(eq=False, repr=False)
class MaxPool(_Pool):
    """``max_pool`` of windows over the spatial axes."""

    dilation: int | tuple[int, ...] = static(default=1)

    def __call__(self, x: Any) -> Array:
        """The largest element of each window."""
        return max_pool(x, self.kernel_size, self.stride, self.padding, self.dilation)


@dataclass(eq=False, repr=False)
class AvgPool(_Pool):
    """``avg_pool`` of windows over the spatial axes."""

    count_include_pad: bool = static(default=True)

    def __call__(self, x: Any) -> Array:
        """The mean of each window."""
        return avg_pool(x, self.kernel_size, self.stride, self.padding, self.count_include_pad)


@dataclass(eq=False, repr=False)
class AdaptiveMaxPool(Layer):
    """``adaptive_max_pool`` to a number of windows."""

    output_size: int | tuple[int | None, ...] = static()

    def __call__(self, x: Any) -> Array:
        """The largest elements of windows that cover the spatial axes."""
        return adaptive_max_pool(x, self.output_size)


@dataclass(eq=False, repr=False)
class AdaptiveAvgPool(Layer):
    """``adaptive_avg_pool`` to a number of windows."""

    output_size: int | tuple[int | None, ...] = static()

    def __call__(self, x: Any) -> Array:
        """The means of windows that cover the spatial axes."""
        return adaptive_avg_pool(x, self.output_size)


@dataclass(eq=False, repr=False)
class Flatten(Layer):
    """The axes from ``start_dim`` to ``end_dim`` as one; all but the first by default."""

    start_dim: int = static(default=1)
    end_dim: int = static(default=-1)

    def __call__(self, x: Any) -> Array:
        """The same elements along fewer axes."""
        x = xp.asarray(x)
        shape, rank = xp.shape(x), x.ndim
        first, last = (d + rank if d < 0 else d for d in (self.start_dim, self.end_dim))
        if not 0 <= first <= last < rank:
            raise ArgumentError(
                f"Flatten: x of shape {shown_shape(shape)} has no axes from {self.start_dim} to "
                f"{self.end_dim}",
                origin=user_origin(),
                remedy="for rows without examples write nn.Flatten(0)",
            )
        return xp.reshape(x, (*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


@dataclass(eq=False, repr=False)
class Upsample(Layer):
    """``interpolate`` to a size, or by a factor."""

    size: int | tuple[int, ...] | None = static(default=None)
    scale_factor: float | tuple[float, ...] | None = static(default=None)
    mode: str = static(default="nearest")
    align_corners: bool = static(default=False)

    def __call__(self, x: Any) -> Array:
        """The images, resized."""
        return interpolate(x, self.size, self.scale_factor, self.mode, self.align_corners)
