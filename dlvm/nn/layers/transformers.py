"""Attention as a layer, and the layers of transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, overload

from dlvm.base.errors import UserError
from dlvm.dsl.trace.configuration import static
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import plain, shape_of
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.namespace import xp
from dlvm.nn.activations import relu
from dlvm.nn.attention import Window, multi_head_attention
from dlvm.nn.initializers import glorot_uniform, zeros

from .basic import Dropout, LayerNorm, Linear, keys_of
from .shown import Layer

if TYPE_CHECKING:
    from dlvm.dsl.trace.typed import Array


@dataclass(init=False, eq=False, repr=False)
class MultiHeadAttention(Layer):
    """``multi_head_attention`` of rows of some features, with a bias in each projection.

    ``num_kv_heads``, which divides ``num_heads``, lets several heads share keys and values.
    ``rotary`` rotates queries and keys by angles that grow with their positions. A position sees
    those within ``local_window_size``, which is that of ``dot_product_attention``.
    """

    query: dict[str, Any]
    key: dict[str, Any]
    value: dict[str, Any]
    out: dict[str, Any]
    rotary: bool
    local_window_size: int | tuple[int, int] | None = static()

    @facing_users
    def __init__(
        self,
        key: Any,
        num_heads: int,
        features: int,
        bias: bool = True,
        dtype: Any = "f32",
        num_kv_heads: int | None = None,
        rotary: bool = False,
        local_window_size: Window = None,
    ) -> None:
        """Sets the initial parameters."""
        if num_heads < 1 or features % num_heads:
            raise UserError(
                f"MultiHeadAttention: {features} features don't make {num_heads} heads of one size",
                origin=user_origin(),
                remedy="pass a number of heads that divides the number of features",
            )
        apart = (features, num_heads, features // num_heads)
        keys = keys_of(key, 4)
        shared = _shared(num_heads, num_kv_heads)
        fewer = (features, shared, features // num_heads)
        self.query = _projection(keys[0], apart, bias, dtype)
        self.key, self.value = (_projection(k, fewer, bias, dtype) for k in keys[1:3])
        self.rotary, self.local_window_size = rotary, local_window_size
        together = glorot_uniform()(keys[3], (features, features), dtype)
        self.out = {"kernel": _owned(together, (*apart[1:], features))}
        self.out |= {"bias": zeros(None, (features,), dtype)} if bias else {}

    @overload
    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        bias: Any = None,
        mask: Any = None,
        is_causal: bool = False,
        cache: None = None,
    ) -> Array: ...
    @overload
    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        bias: Any = None,
        mask: Any = None,
        is_causal: bool = False,
        *,
        cache: Mapping[str, Any],
    ) -> tuple[Array, dict[str, Any]]: ...
    def __call__(
        self,
        query: Any,
        key: Any = None,
        value: Any = None,
        bias: Any = None,
        mask: Any = None,
        is_causal: bool = False,
        cache: Mapping[str, Any] | None = None,
    ) -> Any:
        """Attends from rows (B, T, E) or (T, E) to a key and a value, which are the rows if None.

        With a cache the rows follow those in it, and the result is ``(y, cache)``.
        """
        params = {"query": self.query, "key": self.key, "value": self.value, "out": self.out}
        options: dict[str, Any] = {"is_causal": is_causal, "cache": cache}
        options["local_window_size"] = self.local_window_size
        if self.rotary:
            first = 0 if cache is None else cache["index"]
            options["positions"] = xp.add(xp.arange(shape_of(plain(query))[-2]), first)
        return multi_head_attention(params, query, key, value, bias, mask, **options)

    def init_cache(self, batch: int, length: int, dtype: Any = None) -> dict[str, Any]:
        """An empty cache for ``length`` positions of each of ``batch`` examples."""
        kernel = xp.asarray(self.key["kernel"])
        shape: Any = (batch, length, *shape_of(plain(kernel))[1:])
        held = {word: zeros(None, shape, dtype or kernel.dtype) for word in ("key", "value")}
        return {**held, "index": xp.zeros((), dtype="i64")}


def _shared(heads: int, shared: int | None) -> int:
    """How many heads of keys and values there are."""
    if shared is None:
        return heads
    if shared < 1 or heads % shared:
        raise UserError(
            f"MultiHeadAttention: {heads} heads of queries can't share {shared} heads of keys",
            origin=user_origin(),
            remedy="pass num_kv_heads that divides num_heads",
        )
    return shared


def _projection(key: Any, shape: tuple[int, int, int], bias: bool, dtype: Any) -> dict[str, Any]:
    """A kernel from features to heads, and its bias."""
    kernel = _owned(glorot_uniform()(key, (shape[0], shape[1] * shape[2]), dtype), shape)
    return {"kernel": kernel, "bias": zeros(None, shape[1:], dtype)} if bias else {"kernel": kernel}


def _owned(x: Any, shape: tuple[int, ...]) -> Any:
    """The elements in another shape and in memory of their own, so that they can be donated."""
    return xp.copy(xp.reshape(x, shape))


@dataclass(init=False, eq=False, repr=False)
class _TransformerLayer(Layer):
    """Attention of rows to themselves and a perceptron, each added to its rows and normalised."""

    attention: MultiHeadAttention
    linear1: Linear
    linear2: Linear
    norm1: LayerNorm
    norm2: LayerNorm
    dropout: Dropout
    activation: Callable[..., Any]
    norm_first: bool

    @facing_users
    def __init__(
        self,
        key: Any,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Callable[..., Any] = relu,
        layer_norm_eps: float = 1e-5,
        norm_first: bool = False,
        bias: bool = True,
        dtype: Any = "f32",
    ) -> None:
        """Sets the initial parameters."""
        keys, norm = keys_of(key, 4), (d_model, layer_norm_eps, bias, dtype)
        self.attention = MultiHeadAttention(keys[0], nhead, d_model, bias, dtype)
        self.linear1 = Linear(keys[1], d_model, dim_feedforward, bias, dtype)
        self.linear2 = Linear(keys[2], dim_feedforward, d_model, bias, dtype)
        self.norm1, self.norm2 = LayerNorm(*norm), LayerNorm(*norm)
        self.dropout, self.activation, self.norm_first = Dropout(dropout), activation, norm_first
        self._extend(keys[3], nhead, norm)

    def _extend(self, key: Any, nhead: int, norm: tuple[Any, ...]) -> None:
        """Parameters of parts that only some of these layers have."""

    def _added(self, norm: LayerNorm, x: Any, part: Callable[[Any], Any]) -> Any:
        """The rows and what a part of the layer makes of them, normalised before or after."""
        if self.norm_first:
            return xp.add(x, part(norm(x)))
        return norm(xp.add(x, part(x)))

    def _after_attention(
        self, x: Any, drop: Callable[[Any], Any], mask: Any, is_causal: bool
    ) -> Any:
        """The rows after attention to themselves."""
        attend = self.attention
        return self._added(self.norm1, x, lambda x: drop(attend(x, mask=mask, is_causal=is_causal)))

    def _after_perceptron(self, x: Any, drop: Callable[[Any], Any], norm: LayerNorm) -> Any:
        """The rows after the perceptron."""
        return self._added(
            norm, x, lambda x: drop(self.linear2(drop(self.activation(self.linear1(x)))))
        )


@dataclass(init=False, eq=False, repr=False)
class TransformerEncoderLayer(_TransformerLayer):
    """Attention of rows to themselves and a perceptron, each added to its rows and normalised.

    ``norm_first`` normalises what goes into each instead of what comes out. The options are
    PyTorch's; there is no dropout of the weights of attention.
    """

    takes_key: ClassVar[bool] = True

    def __call__(
        self,
        x: Any,
        key: Any = None,
        training: bool = True,
        mask: Any = None,
        is_causal: bool = False,
    ) -> Array:
        """Rows (B, T, E) or (T, E); a mask is true where a row is seen."""
        drop = _Drops(self.dropout, key, training, 3)
        return self._after_perceptron(
            self._after_attention(x, drop, mask, is_causal), drop, self.norm2
        )


@dataclass(init=False, eq=False, repr=False)
class TransformerDecoderLayer(_TransformerLayer):
    """Attention of rows to themselves, then to those of a memory, and a perceptron.

    The options are those of ``TransformerEncoderLayer``.
    """

    memory: MultiHeadAttention
    norm3: LayerNorm

    def _extend(self, key: Any, nhead: int, norm: tuple[Any, ...]) -> None:
        features, _, bias, dtype = norm
        self.memory = MultiHeadAttention(key, nhead, features, bias, dtype)
        self.norm3 = LayerNorm(*norm)

    def __call__(
        self,
        x: Any,
        memory: Any,
        key: Any = None,
        training: bool = True,
        mask: Any = None,
        memory_mask: Any = None,
        is_causal: bool = False,
    ) -> Array:
        """Rows (B, T, E) that see one another, and those of a memory (B, S, E)."""
        drop = _Drops(self.dropout, key, training, 4)
        x = self._after_attention(x, drop, mask, is_causal)
        x = self._added(self.norm2, x, lambda x: drop(self.memory(x, memory, mask=memory_mask)))
        return self._after_perceptron(x, drop, self.norm3)


class _Drops:
    """Dropout with another key at each call; without a key if the rate is 0."""

    def __init__(self, dropout: Dropout, key: Any, training: bool, count: int) -> None:
        self.dropout, self.training = dropout, training and dropout.rate > 0
        split = self.training and key is not None
        self.keys = iter(keys_of(key, count) if split else [None] * count)

    def __call__(self, x: Any) -> Any:
        return self.dropout(x, next(self.keys), self.training)
