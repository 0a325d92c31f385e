"""Layers around a layer: they change its weights, or how its derivative is computed.

Each is called with the arguments of the layer inside, which it holds in the field ``layer``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dlvm.base.errors import UserError
from dlvm.dsl.derive.derivatives import check_policy, checkpoint, stop_gradient
from dlvm.dsl.flow.control import in_trace
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.trees import flatten, unflatten
from dlvm.dsl.words.names import named
from dlvm.dsl.words.namespace import xp
from dlvm.nn.initializers import zeros
from dlvm.nn.precision import float_of, wide
from dlvm.tree import leaves_with_path

from .basic import Linear, evenly, keys_of
from .shown import Layer

FIRST_STEPS = 15
"""Power iterations with which the state of a spectral norm begins, as PyTorch's."""


@dataclass(init=False, eq=False, repr=False)
class _Around(Layer):
    """A layer around a layer, which needs a key and keeps a state if the one inside does."""

    layer: Any

    @property
    def takes_key(self) -> bool:
        """Whether the layer inside is called with a key and with whether this is training."""
        return bool(getattr(self.layer, "takes_key", False))

    @property
    def has_state(self) -> bool:
        """Whether a call gives a state besides its result."""
        return bool(getattr(self.layer, "has_state", False))

    def init(self) -> Any:
        """The first state of the layer inside, None if it has none."""
        return self.layer.init() if hasattr(self.layer, "init") else None


@dataclass(init=False, eq=False, repr=False)
class LoRA(_Around):
    """A layer with frozen parameters, of which each matrix has a small product added (Hu, 2021).

    The product is ``scale * lora_a @ lora_b``, of as many columns and rows as ``rank`` says; it is
    0 at first, and only its factors learn. ``scale`` is ``alpha / rank``, and 1 without ``alpha``.
    Parameters with more than two axes, such as those of convolutions and of attention, are taken as
    matrices that are as near to square as their axes allow.
    """

    lora_a: tuple[Any, ...]
    lora_b: tuple[Any, ...]
    scale: float = static()

    @facing_users
    def __init__(
        self, key: Any, layer: Any, rank: int = 8, alpha: float | None = None, dtype: Any = None
    ) -> None:
        """Sets the initial parameters."""
        given = zip(flatten(layer)[0], _matrices(layer), strict=True)
        weights = [xp.asarray(x) for x, chosen in given if chosen]
        if not weights or rank < 1:
            raise UserError(
                f"LoRA: expected a layer with matrices and a rank of 1 or more, found "
                f"{shown(layer)} and {rank!r}",
                origin=user_origin(),
                remedy="pass the layer that is to be adapted: nn.LoRA(key, nn.Linear(k, 4, 8), 2)",
            )
        sizes = [_sides(shape_of(plain(x))) for x in weights]
        rows = zip(keys_of(key, len(weights)), weights, sizes, strict=True)
        self.layer = layer
        self.lora_a = tuple(evenly(k, (m, rank), m, dtype or x.dtype) for k, x, (m, _) in rows)
        self.lora_b = tuple(
            zeros(None, (rank, n), dtype or x.dtype)
            for x, (_, n) in zip(weights, sizes, strict=True)
        )
        self.scale = 1.0 if alpha is None else alpha / rank

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the layer gives with the products added to its matrices."""
        if type(self.layer) is not Linear:
            return self._with_products(stop_gradient(self.layer))(*args, **options)
        (x,) = args
        narrow = xp.matmul(x, self.lora_a[0])
        y = stop_gradient(self.layer)(x)
        return xp.add(y, xp.multiply(xp.matmul(narrow, self.lora_b[0]), self.scale))

    def merged(self) -> Any:
        """The layer with the products added to its matrices, which costs no more than before."""
        return self._with_products(self.layer)

    def _with_products(self, layer: Any) -> Any:
        leaves, spec = flatten(layer)
        factors = zip(self.lora_a, self.lora_b, strict=True)
        places = zip(leaves, _matrices(layer), strict=True)
        return unflatten(spec, [self._sum(x, *next(factors)) if m else x for x, m in places])

    def _sum(self, x: Any, a: Any, b: Any) -> Any:
        product = xp.reshape(xp.matmul(a, b), shape_of(plain(x)))
        return xp.add(x, xp.multiply(product, self.scale))


def _matrices(layer: Any) -> list[bool]:
    """For each leaf whether it is a matrix; biases of attention have two axes and are none."""
    return [path[-1:] != ("bias",) and _is_matrix(x) for path, x in leaves_with_path(layer)]


def _is_matrix(x: Any) -> bool:
    given = xp.asarray(x)
    return len(shape_of(plain(given))) >= 2 and xp.isdtype(given.dtype, "real floating")


def _sides(shape: Sequence[Any]) -> tuple[int, int]:
    """The rows and columns of the smallest sum into which the axes of a shape can be joined."""
    ways = [(math.prod(shape[:i]), math.prod(shape[i:])) for i in range(1, len(shape))]
    return min(ways, key=sum)


@dataclass(init=False, eq=False, repr=False)
class WeightNorm(_Around):
    """A layer whose weight has a direction and a length that learn apart (Salimans, 2016).

    The weight is ``scale * v / norm(v)`` for each index of ``axis``, where ``v`` is the weight of
    the layer inside. ``scale`` is the norm of ``v`` at first, so that the layer gives what it gave.
    """

    scale: Any
    axis: int = static()

    @facing_users
    def __init__(self, layer: Any, axis: int = -1) -> None:
        """Sets the initial parameters."""
        weight = xp.asarray(_weight("WeightNorm", layer))
        self.scale = xp.copy(xp.astype(_norms(weight, axis), weight.dtype))
        self.layer, self.axis = layer, axis

    def __call__(self, *args: Any, **options: Any) -> Any:
        """What the layer gives with the weight of this direction and length."""
        v = self.layer.weight
        return _times(self.layer, xp.divide(self.scale, _norms(v, self.axis)))(*args, **options)


@dataclass(init=False, eq=False, repr=False)
class SpectralNorm(Layer):
    """A layer whose weight is divided by its largest singular value (Miyato, 2018).

    The value is estimated by a step of a power iteration at each call in training, from vectors
    that the caller keeps, as of ``BatchNorm``: ``y, state = norm(x, state, training)``, where the
    first state is ``norm.init()``. All axes of the weight but the last count rows together.
    """

    layer: Any
    steps: int = static()
    eps: float = static()
    has_state: ClassVar[bool] = True
    asks_training: ClassVar[bool] = True

    @facing_users
    def __init__(self, layer: Any, steps: int = 1, eps: float = 1e-12) -> None:
        """Sets the layer inside."""
        _weight("SpectralNorm", layer)
        self.layer, self.steps, self.eps = layer, steps, eps

    def init(self) -> tuple[Any, Any]:
        """Vectors of the largest singular value, after fifteen steps from drawn ones."""
        matrix = self._matrix()
        size = shape_of(plain(matrix))[-1]
        drawn = named("random.normal")(named("random.key")(0), (size,), matrix.dtype)
        return self._stepped(matrix, (None, drawn), FIRST_STEPS)

    def __call__(
        self, x: Any, state: tuple[Any, Any], training: bool = True
    ) -> tuple[Any, tuple[Any, Any]]:
        """What the layer gives with the weight divided, and the new state."""
        matrix = self._matrix()
        u, v = state = self._stepped(matrix, state, self.steps if training else 0)
        largest = xp.matmul(xp.matmul(u, matrix), v)
        return _times(self.layer, xp.divide(1, largest))(x), state

    def _matrix(self) -> Any:
        weight = self.layer.weight
        return xp.reshape(wide(weight, float_of(weight)), (-1, shape_of(plain(weight))[-1]))

    def _stepped(self, matrix: Any, state: tuple[Any, Any], steps: int) -> tuple[Any, Any]:
        """Vectors of rows and of columns after some steps, through which no derivative flows."""
        matrix, (u, v) = xp.stop_gradient(matrix), state
        for _ in range(steps):
            u = self._unit(xp.matmul(matrix, v))
            v = self._unit(xp.matmul(u, matrix))
        return u, v

    def _unit(self, x: Any) -> Any:
        return xp.divide(x, xp.maximum(xp.sqrt(xp.sum(xp.multiply(x, x))), self.eps))


@dataclass(init=False, eq=False, repr=False)
class Recompute(_Around):
    """A layer whose inner values the derivative computes again instead of keeping them.

    It is ``dlvm.checkpoint`` as a layer, and ``policy`` says which values are kept all the same.
    """

    policy: str = static()

    @facing_users
    def __init__(self, layer: Any, policy: str = "nothing") -> None:
        """Sets the layer inside."""
        check_policy(policy)
        self.layer, self.policy = layer, policy

    def __call__(self, x: Any, *args: Any, **options: Any) -> Any:
        """What the layer gives; a derivative keeps ``x`` and what the policy says."""
        if not in_trace():
            return self.layer(x, *args, **options)

        def run(layer: Any, x: Any) -> Any:
            return layer(x, *args, **options)

        return checkpoint(run, self.policy)(self.layer, x)


def _norms(v: Any, axis: int) -> Any:
    """The norm of the part of each index of an axis, in a shape that stretches to that of v."""
    count = len(shape_of(plain(v)))
    v, rest = wide(v, float_of(v)), tuple(i for i in range(count) if i != axis % count)
    return xp.sqrt(xp.sum(xp.multiply(v, v), axis=rest, keepdims=True))


def _weight(name: str, layer: Any) -> Any:
    weight = getattr(layer, "weight", None)
    if weight is None or len(shape_of(plain(weight))) < 2:
        raise UserError(
            f"{name}: expected a layer whose field weight is a matrix, found {shown(layer)}",
            origin=user_origin(),
            remedy=f"put it around each layer with a weight: nn.{name}(nn.Linear(key, 4, 8))",
        )
    return weight


def _times(layer: Any, factor: Any) -> Any:
    """A copy of a layer whose weight is multiplied."""
    made, kind = copy.copy(layer), float_of(layer.weight)
    weight = xp.multiply(wide(layer.weight, kind), factor)
    object.__setattr__(made, "weight", xp.astype(weight, kind))
    return made
