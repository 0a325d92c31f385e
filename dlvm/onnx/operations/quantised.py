"""Integers of quantisation: floats as 8 and 16 bits with a scale, and products of them in i32."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.nn import conv
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import axis_of, kind, like, rank, shape
from .windows import window_of


def _beside(call: Call, x: Any, part: Any) -> Any:
    """A scale or zero point as an array that broadcasts: one for all, an axis, or blocks of one."""
    if rank(part) == 0 or (rank(part) == 1 and rank(x) == 0):
        return part
    axis = axis_of(call.get("axis", 1), rank(x))
    block = call.get("block_size", 0)
    if block:
        part = xp.repeat(part, block, axis=axis)
        return part[tuple(slice(0, shape(x)[k]) for k in range(rank(x)))]
    if shape(part) == (1,):
        return xp.reshape(part, ())
    return xp.reshape(part, tuple(-1 if k == axis else 1 for k in range(rank(x))))


def _quantised(x: Any, zero: Any, dtype: np.dtype[Any]) -> Any:
    """Rounded to even, moved by the zero point, and cut off at the ends of the type."""
    edges = np.iinfo(dtype)
    whole = xp.rint(x)
    moved = whole if zero is None else whole + xp.astype(zero, kind(whole))
    return xp.astype(xp.clip(moved, edges.min, edges.max), dtype)


@operation("QuantizeLinear")
def _quantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    dtype = kind(zero) if zero is not None else dtype_of(call.get("output_dtype", 0) or 2)
    precision = call.get("precision", 0)
    wide = np.dtype(np.float32) if not precision else dtype_of(precision)
    ratio = xp.astype(x, wide) / xp.astype(_beside(call, x, scale), wide)
    return _quantised(ratio, None if zero is None else _beside(call, x, zero), dtype)


@operation("DequantizeLinear")
def _dequantize(call: Call, x: Any, scale: Any, zero: Any = None) -> Any:
    wide = xp.astype(x, np.int32)
    if zero is not None:
        wide = wide - xp.astype(_beside(call, x, zero), np.int32)
    dtype = dtype_of(call.get("output_dtype", 0) or 0) if call.get("output_dtype", 0) else None
    found = xp.astype(wide, np.float32) * xp.astype(_beside(call, x, scale), np.float32)
    return xp.astype(found, kind(scale) if dtype is None else dtype)


@operation("DynamicQuantizeLinear")
def _dynamic_quantize(call: Call, x: Any) -> Any:
    low, high = xp.minimum(xp.min(x), 0), xp.maximum(xp.max(x), 0)
    scale = like((high - low) / 255, x)
    safe = xp.where(scale == 0, xp.ones_like(scale), scale)
    zero = xp.astype(xp.clip(xp.rint(-low / safe), 0, 255), np.uint8)
    return _quantised(x / safe, zero, np.dtype(np.uint8)), scale, zero


def _shifted(x: Any, zero: Any, row: bool) -> Any:
    """Integers as i32 without their zero point, which may be one for each row or column."""
    wide = xp.astype(x, np.int32)
    if zero is None:
        return wide
    zero = xp.astype(zero, np.int32)
    if rank(zero) == 1 and not (isinstance(shape(zero)[0], int) and shape(zero)[0] == 1):
        zero = xp.expand_dims(zero, 1) if row else zero
    return wide - zero


@operation("MatMulInteger")
def _matmul_integer(call: Call, a: Any, b: Any, za: Any = None, zb: Any = None) -> Any:
    return xp.matmul(_shifted(a, za, True), _shifted(b, zb, False))


@operation("QLinearMatMul")
def _quantised_matmul(
    call: Call, a: Any, sa: Any, za: Any, b: Any, sb: Any, zb: Any, sy: Any, zy: Any
) -> Any:
    found = xp.matmul(_shifted(a, za, True), _shifted(b, zb, False))
    ratio = xp.astype(sa, np.float32) * xp.astype(sb, np.float32) / xp.astype(sy, np.float32)
    return _quantised(xp.astype(found, np.float32) * ratio, zy, kind(zy))


def _convolved(call: Call, x: Any, w: Any, zx: Any, zw: Any) -> Any:
    """The convolution of integers; padding is the zero point, which is 0 after it is taken off."""
    window = window_of(call, x, shape(w)[2:])
    if zw is not None and rank(zw) == 1:
        zw = xp.reshape(zw, (-1, *(1,) * (rank(w) - 1)))
    return conv(
        _shifted(x, zx, False),
        _shifted(w, zw, False),
        stride=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=call.get("group", 1),
        layout="channels_first",
    )


@operation("ConvInteger")
def _conv_integer(call: Call, x: Any, w: Any, zx: Any = None, zw: Any = None) -> Any:
    return _convolved(call, x, w, zx, zw)


@operation("QLinearConv")
def _quantised_conv(
    call: Call,
    x: Any,
    sx: Any,
    zx: Any,
    w: Any,
    sw: Any,
    zw: Any,
    sy: Any,
    zy: Any,
    b: Any = None,
) -> Any:
    found = _convolved(call, x, w, zx, zw)
    channels = (1, -1, *(1,) * (rank(x) - 2))
    found = found if b is None else found + xp.reshape(b, channels)
    ratio = sx * sw / sy
    ratio = xp.reshape(ratio, channels) if rank(ratio) == 1 else ratio
    return _quantised(xp.astype(found, np.float32) * ratio, zy, kind(zy))
