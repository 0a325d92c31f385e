"""Layers made of layers: one after the other, perceptrons and attention."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any, ClassVar

from dlvm.base.errors import UserError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.nn.activations import relu
from dlvm.nn.attention import multi_head_attention
from dlvm.nn.initializers import glorot_uniform, zeros

from .basic import Linear, keys_of


@dataclass
class Lambda:
    """A function as a layer without parameters; the function is configuration."""

    fn: Callable[..., Any]

    def __call__(self, x: Any) -> Any:
        """The function of ``x``."""
        return self.fn(x)


@dataclass(init=False)
class Sequential:
    """Layers and functions, each of what the one before it gave."""

    layers: tuple[Any, ...]
    takes_key: ClassVar[bool] = True

    @facing_users
    def __init__(self, layers: Iterable[Any]) -> None:
        """The first parameters."""
        self.layers = tuple(map(_layer, layers))

    def __call__(self, x: Any, key: Any = None, training: bool = True) -> Any:
        """The last layer's result; layers that need keys get one of their own each."""
        count = sum(map(_takes_key, self.layers))
        keys = iter([None] * count if key is None else keys_of(key, max(count, 1)))
        for layer in self.layers:
            x = layer(x, next(keys), training) if _takes_key(layer) else layer(x)
        return x


def _takes_key(layer: Any) -> bool:
    """Whether a layer, as dropout, is called with a key and with whether this is training."""
    return getattr(layer, "takes_key", False)


def _layer(layer: Any) -> Any:
    """A layer, or a function as one."""
    if getattr(layer, "has_state", False):
        raise UserError(
            f"Sequential: {type(layer).__name__} gives a state besides its result, which would be "
            "lost here",
            origin=user_origin(),
            remedy="call it between two Sequential, and keep its state",
        )
    if not callable(layer):
        raise UserError(
            f"Sequential: expected layers and functions, found {layer!r:.60}",
            origin=user_origin(),
            remedy="pass all layers in one list",
        )
    return layer if is_dataclass(layer) else Lambda(layer)


@dataclass(init=False)
class MLP:
    """A perceptron: ``Linear`` layers of some sizes, with an activation between them."""

    layers: tuple[Linear, ...]
    activation: Callable[..., Any]

    @facing_users
    def __init__(
        self,
        key: Any,
        sizes: Sequence[int],
        activation: Callable[..., Any] = relu,
        bias: bool = True,
        dtype: Any = "f32",
    ) -> None:
        """The first parameters."""
        if len(sizes) < 2:
            raise UserError(
                f"MLP: expected the sizes of all layers, found {sizes!r}",
                origin=user_origin(),
                remedy="pass two sizes or more, the first that of the input: (784, 512, 10)",
            )
        keys = keys_of(key, len(sizes) - 1)
        ends = zip(keys, sizes, sizes[1:], strict=False)
        self.layers = tuple(Linear(k, i, o, bias, dtype) for k, i, o in ends)
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        """Rows of the first size as rows of the last; no activation follows the last layer."""
        *inner, last = self.layers
        for layer in inner:
            x = self.activation(layer(x))
        return last(x)


@dataclass(init=False)
class MultiHeadAttention:
    """``multi_head_attention`` of rows of some features, with a bias in each projection."""

    query: dict[str, Any]
    key: dict[str, Any]
    value: dict[str, Any]
    out: dict[str, Any]

    @facing_users
    def __init__(
        self, key: Any, num_heads: int, features: int, bias: bool = True, dtype: Any = "f32"
    ) -> None:
        """The first parameters."""
        if num_heads < 1 or features % num_heads:
            raise UserError(
                f"MultiHeadAttention: {features} features don't make {num_heads} heads of one size",
                origin=user_origin(),
                remedy="pass a number of heads that divides the number of features",
            )
        apart = (features, num_heads, features // num_heads)
        keys = keys_of(key, 4)
        self.query, self.key, self.value = (_projection(k, apart, bias, dtype) for k in keys[:3])
        together = glorot_uniform()(keys[3], (features, features), dtype)
        self.out = {"kernel": _owned(together, (*apart[1:], features))}
        self.out |= {"bias": zeros(None, (features,), dtype)} if bias else {}

    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        bias: Any = None,
        mask: Any = None,
        is_causal: bool = False,
    ) -> Any:
        """Rows (B, T, E) or (T, E); without a key and a value, of attention to themselves."""
        params = {"query": self.query, "key": self.key, "value": self.value, "out": self.out}
        return multi_head_attention(params, query, key, value, bias, mask, is_causal=is_causal)


def _projection(key: Any, shape: tuple[int, int, int], bias: bool, dtype: Any) -> dict[str, Any]:
    """A kernel from features to heads, and its bias."""
    kernel = _owned(glorot_uniform()(key, (shape[0], shape[1] * shape[2]), dtype), shape)
    return {"kernel": kernel, "bias": zeros(None, shape[1:], dtype)} if bias else {"kernel": kernel}


def _owned(x: Any, shape: tuple[int, ...]) -> Any:
    """The elements in another shape and in memory of their own, so that they can be donated."""
    return xp.copy(xp.reshape(x, shape))
