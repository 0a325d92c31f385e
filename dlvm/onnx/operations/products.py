"""Products of matrices and convolutions."""

from __future__ import annotations

from typing import Any

from dlvm import linalg
from dlvm.dsl.words.namespace import xp
from dlvm.nn import conv, conv_transpose
from dlvm.onnx.table import Call, operation

from .operands import like, rank, shape
from .windows import Window, window_of


@operation("MatMul")
def _matmul(call: Call, x: Any, y: Any) -> Any:
    return xp.matmul(x, y)


@operation("Gemm")
def _gemm(call: Call, x: Any, y: Any, c: Any = None) -> Any:
    x = xp.matrix_transpose(x) if call.get("transA", 0) else x
    y = xp.matrix_transpose(y) if call.get("transB", 0) else y
    found = _scaled(xp.matmul(x, y), call.get("alpha", 1.0))
    return found if c is None else found + _scaled(c, call.get("beta", 1.0))


def _scaled(x: Any, factor: float) -> Any:
    return x if factor == 1 else like(factor * x, x)


@operation("Det")
def _det(call: Call, x: Any) -> Any:
    return linalg.det(x)


@operation("Einsum")
def _einsum(call: Call, *xs: Any) -> Any:
    return xp.einsum(call["equation"].replace(" ", ""), *xs)


@operation("Conv")
def _conv(call: Call, x: Any, w: Any, b: Any = None) -> Any:
    window = window_of(call, x, shape(w)[2:])
    found = conv(
        x,
        w,
        stride=window.strides,
        padding=window.pads,
        dilation=window.dilations,
        groups=call.get("group", 1),
        layout="channels_first",
    )
    return _with_bias(found, b)


def _with_bias(x: Any, b: Any) -> Any:
    return x if b is None else x + xp.reshape(b, (1, -1, *(1,) * (rank(x) - 2)))


@operation("ConvTranspose")
def _conv_transpose(call: Call, x: Any, w: Any, b: Any = None) -> Any:
    window = window_of(call, x, shape(w)[2:])
    pads, more = _reversed_pads(call, x, window)
    convolved = conv_transpose(
        x,
        _turned_weights(call, w),
        stride=window.strides,
        padding=pads,
        dilation=window.dilations,
        output_padding=more,
        groups=call.get("group", 1),
        layout="channels_first",
        transpose_kernel=True,
    )
    return _with_bias(convolved, b)


def _turned_weights(call: Call, w: Any) -> Any:
    """The weights (in, out / groups, ...), which are those of the convolution in reverse."""
    return w


def _reversed_pads(
    call: Call, x: Any, window: Window
) -> tuple[list[tuple[int, int]], tuple[int, ...]]:
    """The padding that a transposed convolution cuts off, and what it adds behind."""
    count = len(window.sizes)
    more = tuple(call.get("output_padding", (0,) * count))
    wanted = call.get("output_shape")
    automatic = call.get("auto_pad", "NOTSET")
    if wanted is None and automatic in ("NOTSET", "VALID"):
        return list(window.pads), more
    pads: list[tuple[int, int]] = []
    for k in range(count):
        size, step = shape(x)[2 + k], window.strides[k]
        target = size * step if wanted is None else wanted[k - count]
        total = (size - 1) * step + more[k] + (window.sizes[k] - 1) * window.dilations[k] + 1
        cut = total - target
        half = cut // 2
        pads.append((cut - half, half) if automatic != "SAME_UPPER" else (half, cut - half))
    return pads, more
