"""Parts that compare updates with parameters, array by array or unit by unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from dlvm.base.errors import ShapeError
from dlvm.dsl.call.undecorated import computing
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.optim.combining import Stateless
from dlvm.optim.leaves import moved, norm, root, scalar

from .decay import check_params


@dataclass(frozen=True)
class ScaleByTrustRatio(Stateless):
    """Multiplies each array by the norm of its parameters over its own, or by 1 if one is 0."""

    min_norm: Any
    trust_coefficient: Any
    eps: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates whose size is that of the parameters."""
        check_params("a trust ratio", params)

        def scaled(x: Any, p: Any) -> Any:
            least = scalar(self.min_norm, x)
            size, own = xp.maximum(norm(p), least), xp.maximum(norm(x), least)
            neither = (size == 0) | (own == 0)
            below = xp.where(neither, 1, own + scalar(self.eps, x))
            return x * xp.where(neither, 1, scalar(self.trust_coefficient, x) * size / below)

        return moved(scaled, updates, parameters=params), state


@dataclass(frozen=True)
class ScaleByParamBlockRms(Stateless):
    """Multiplies each array by the root of the mean square of its parameters, or ``min_scale``."""

    min_scale: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates in units of how large parameters are."""
        check_params("a scale of parameters", params)

        def scaled(x: Any, p: Any) -> Any:
            return x * xp.maximum(mean_size(p), scalar(self.min_scale, x))

        return moved(scaled, updates, parameters=params), state


@dataclass(frozen=True)
class ClipByBlockRms(Stateless):
    """Scales each array so that the root of its mean square is at most the threshold."""

    threshold: Any

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Updates whose root of the mean square is at most the threshold."""

        def within(x: Any) -> Any:
            return x / xp.maximum(mean_size(x) / scalar(self.threshold, x), 1)

        return moved(within, updates), state


@dataclass(frozen=True)
class AdaptiveGradClip(Stateless):
    """Scales the gradient of each unit to at most ``clipping`` times the norm of its parameters."""

    clipping: Any
    eps: Any
    axis: Annotated[int | tuple[int, ...] | None, static]

    @computing
    def update(self, updates: Any, state: Any, params: Any = None, **extra: Any) -> tuple[Any, Any]:
        """Gradients of the same direction in each unit."""
        check_params("adaptive clipping", params)

        def within(x: Any, p: Any) -> Any:
            own, size = self._norm(x), self._norm(p)
            most = scalar(self.clipping, x) * xp.maximum(size, scalar(self.eps, x))
            return xp.where(own < most, x, x * (most / xp.maximum(own, 1e-6)))

        return moved(within, updates, parameters=params), state

    def _norm(self, x: Any) -> Any:
        axis = unit_axes(x) if self.axis is None else self.axis
        return root(xp.sum(x * x, axis=axis, keepdims=True))


def mean_size(x: Any) -> Any:
    """The root of the mean square."""
    return root(xp.mean(x * x))


def unit_axes(x: Any) -> tuple[int, ...]:
    """The axes of one unit: all but the last, along which a layer's units lie; all of a vector."""
    shape = shape_of(plain(x))
    if sum(size != 1 for size in shape) <= 1:
        return tuple(range(len(shape)))
    if len(shape) > 5:
        raise ShapeError(
            f"adaptive_grad_clip: the units of a parameter of shape {shown_shape(shape)} are not "
            f"known",
            origin=user_origin(),
            remedy="pass the axes over which the norm of a unit is taken as the third argument",
        )
    return (0,) if len(shape) <= 3 else tuple(range(len(shape) - 1))


@facing_users
def scale_by_trust_ratio(
    min_norm: Any = 0.0, trust_coefficient: Any = 1.0, eps: Any = 0.0
) -> ScaleByTrustRatio:
    """Scales each array of updates to the norm of its parameters (You et al., 2017)."""
    return ScaleByTrustRatio(min_norm, trust_coefficient, eps)


@facing_users
def scale_by_param_block_rms(min_scale: Any = 1e-3) -> ScaleByParamBlockRms:
    """Multiplies each array of updates by the root of the mean square of its parameters."""
    return ScaleByParamBlockRms(min_scale)


@facing_users
def clip_by_block_rms(threshold: Any) -> ClipByBlockRms:
    """Scales each array of updates so that the root of its mean square is at most ``threshold``."""
    return ClipByBlockRms(threshold)


@facing_users
def adaptive_grad_clip(
    clipping: Any, eps: Any = 1e-3, axis: int | tuple[int, ...] | None = None
) -> AdaptiveGradClip:
    """Limits the gradient of each unit relative to its parameters (Brock et al., 2021).

    The norm of a gradient becomes at most ``clipping`` times that of the parameters. A unit is a
    column of a matrix, an output of a kernel, or a whole vector; ``axis`` names other axes for the
    norm.
    """
    return AdaptiveGradClip(clipping, eps, axis)
