"""Normalisation: mean 0 and variance 1 over some axes, then a scale and a bias.

A variance is the mean of squared distances (with no correction), to which ``eps`` is added before
the root is taken. Half precisions are computed in f32 and rounded once.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from dlvm.base.errors import ShapeError, UserError
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.ir import Dim

from .precision import float_of, wide

Axes = int | Sequence[int]


@exported("nn.layer_norm")
def layer_norm(
    x: Any, scale: Any = None, bias: Any = None, eps: float = 1e-5, axis: Axes = -1
) -> Any:
    """Each example less its mean, over the root of its variance, along the features' axes.

    ``scale`` and ``bias`` have the shape of these axes, and are left out where they are None.
    """
    kind, axes = float_of(x, scale, bias), _axes("layer_norm", x, axis)
    found = _standard(wide(x, kind), axes, eps)
    return xp.astype(_affine("layer_norm", found, scale, bias, axes), kind)


@exported("nn.rms_norm")
def rms_norm(x: Any, scale: Any = None, eps: float = 1e-6, axis: Axes = -1) -> Any:
    """``x / sqrt(mean(x**2) + eps) * scale`` along the features' axes; no mean is subtracted."""
    kind, axes = float_of(x, scale), _axes("rms_norm", x, axis)
    x = wide(x, kind)
    found = x / xp.sqrt(_mean(x * x, axes) + eps)
    return xp.astype(_affine("rms_norm", found, scale, None, axes), kind)


@exported("nn.group_norm")
def group_norm(
    x: Any, groups: int, scale: Any = None, bias: Any = None, eps: float = 1e-5, axis: int = -1
) -> Any:
    """Mean 0 and variance 1 over each group of channels of each example.

    The first axis counts examples and ``axis`` channels (1 for PyTorch's layout). ``scale`` and
    ``bias`` have one number for each channel.
    """
    (at,) = _axes("group_norm", x, axis)
    shape = shape_of(plain(x))
    _check_groups(shape, groups, at)
    kind = float_of(x, scale, bias)
    split = (*shape[:at], groups, shape[at] // groups, *shape[at + 1 :])
    rest = tuple(i for i in range(1, len(split)) if i != at)
    found = xp.reshape(_standard(xp.reshape(wide(x, kind), split), rest, eps), shape)
    return xp.astype(_affine("group_norm", found, scale, bias, (at,)), kind)


@exported("nn.batch_norm")
def batch_norm(
    x: Any,
    mean: Any,
    var: Any,
    scale: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: float = 1e-5,
    axis: int = -1,
) -> tuple[Any, tuple[Any, Any]]:
    """Each channel less its mean, over the root of its variance; and the new ``(mean, var)``.

    ``axis`` counts channels. In training both are those of the batch, and the running ones move
    towards them by ``momentum``, the variance with PyTorch's correction n / (n - 1). Otherwise the
    running ones are used, and come back as they are. No derivative flows through new running ones.
    """
    (at,) = _axes("batch_norm", x, axis)
    kind, shape = float_of(x, scale, bias), shape_of(plain(x))
    rest = tuple(i for i in range(len(shape)) if i != at)
    _check_parameters("batch_norm", shape, (at,), mean=mean, var=var)
    x = wide(x, kind)
    if not training:
        centre, spread = (_along(wide(v, kind), len(shape), (at,)) for v in (mean, var))
        found, state = (x - centre) / xp.sqrt(spread + eps), (mean, var)
    else:
        centre, spread = _moments(x, rest)
        found = (x - centre) / xp.sqrt(spread + eps)
        state = _moved(mean, var, centre, spread, _count(shape, rest), momentum)
    return xp.astype(_affine("batch_norm", found, scale, bias, (at,)), kind), state


def _moved(mean: Any, var: Any, centre: Any, spread: Any, count: Dim, by: Any) -> tuple[Any, Any]:
    """The running mean and variance after one more batch, in the types that they have."""
    correction = xp.divide(count, xp.maximum(xp.subtract(count, 1), 1))
    spread = spread * xp.astype(correction, spread.dtype)
    return _towards(mean, centre, by), _towards(var, spread, by)


def _towards(old: Any, new: Any, by: Any) -> Any:
    """``(1 - by) * old + by * new`` for what one batch gave."""
    old = xp.asarray(old)
    new = xp.stop_gradient(xp.reshape(new, xp.shape(old)))
    return xp.astype((1.0 - by) * wide(old, float_of(old)) + by * new, old.dtype)


def _count(shape: Sequence[Dim], axes: Sequence[int]) -> Dim:
    """How many numbers a mean along these axes is of."""
    count: Dim = 1
    for a in axes:
        count = count * shape[a]
    return count


def _moments(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """The mean and the variance along some axes, which are kept."""
    centre = _mean(x, axes)
    away = x - centre
    return centre, _mean(away * away, axes)


def _standard(x: Any, axes: tuple[int, ...], eps: float) -> Any:
    """``x`` with mean 0 and variance 1 along some axes."""
    centre, spread = _moments(x, axes)
    return (x - centre) / xp.sqrt(spread + eps)


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    return xp.mean(x, axis=axes, keepdims=True)


def _affine(name: str, x: Any, scale: Any, bias: Any, axes: tuple[int, ...]) -> Any:
    """``x * scale + bias`` with parameters of the shape of some axes, where there are any."""
    rank = len(shape_of(plain(x)))
    _check_parameters(name, shape_of(plain(x)), axes, scale=scale, bias=bias)
    kind = float_of(x)
    x = x if scale is None else x * _along(wide(scale, kind), rank, axes)
    return x if bias is None else x + _along(wide(bias, kind), rank, axes)


def _along(v: Any, rank: int, axes: tuple[int, ...]) -> Any:
    """Parameters of some axes, which stretch along all others."""
    return xp.expand_dims(v, tuple(i for i in range(rank) if i not in axes))


def _axes(name: str, x: Any, axis: Axes) -> tuple[int, ...]:
    """Axes of ``x``, counted from the front, in ascending order."""
    shape = shape_of(plain(x))
    given = tuple(axis) if isinstance(axis, Sequence) else (operator.index(axis),)
    if not all(-len(shape) <= a < len(shape) for a in given):
        raise ShapeError(
            f"{name}: x has the shape {shown_shape(shape)}, which has no axis {axis}",
            origin=user_origin(),
            remedy="pass the axes of x that hold its features",
        )
    return tuple(sorted({a % len(shape) for a in given}))


def _check_parameters(name: str, shape: Sequence[Dim], axes: tuple[int, ...], **given: Any) -> None:
    """Parameters have one number for each place along their axes."""
    expected = tuple(shape[a] for a in axes)
    for word, parameter in given.items():
        if parameter is not None and (found := shape_of(plain(parameter))) != expected:
            raise ShapeError(
                f"{name}: x of shape {shown_shape(tuple(shape))} needs {word} of shape "
                f"{shown_shape(expected)}, found {shown_shape(found)}",
                origin=user_origin(),
                remedy="pass one number for each feature, and the axis that holds them",
            )


def _check_groups(shape: Sequence[Dim], groups: int, at: int) -> None:
    """Groups are of one size, and examples are counted by the first axis."""
    if at == 0:
        raise ShapeError(
            f"group_norm: the first axis of x {shown_shape(tuple(shape))} counts examples, and "
            "can't count channels as well",
            origin=user_origin(),
            remedy="pass x with an axis of examples in front: x[None]",
        )
    if groups < 1 or (isinstance(shape[at], int) and shape[at] % groups):
        raise UserError(
            f"group_norm: {shape[at]} channels don't make {groups} groups of one size",
            origin=user_origin(),
            remedy="pass a number of groups that divides the number of channels",
        )
