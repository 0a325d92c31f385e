"""Attention: weighted means of values, and positions as angles.

The layout is that of ``jax.nn``: examples, positions, heads, features (BTNH).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from dlvm.base.errors import ArgumentError, DTypeError, ShapeError
from dlvm.dsl.arrays.creation import below
from dlvm.dsl.elements.eager import exported
from dlvm.dsl.trace.kinds import shown
from dlvm.dsl.trace.operands import known_dtype, plain, shape_of, shown_shape
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.words.names import named
from dlvm.dsl.words.namespace import xp
from dlvm.ir import BOOL, Dim, DType

from .normalised import softmax
from .precision import float_of, wide

Shape = tuple[Dim, ...]
Window = int | tuple[int, int] | None


@exported("nn.dot_product_attention")
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: Any = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: Window = None,
) -> Any:
    """``softmax(query @ key.T * scale + bias) @ value`` for each head of each example.

    Layouts: ``query`` (B, T, N, H), ``key`` and ``value`` (B, S, K, H), without B for one example;
    N is a multiple of K, so that several heads share keys. ``bias`` and ``mask``, which is true
    where a value counts, stretch to (B, N, T, S). ``scale`` is ``1 / sqrt(H)`` if it is None. A
    position that sees no value at all has the mean of all, as in JAX.

    Of each example the first ``key_value_seq_lengths`` (B) values count, and results behind the
    first ``query_seq_lengths`` (B) positions are 0. With a ``local_window_size`` of
    ``(left, right)``, or of one number for both sides, the position ``i`` sees the values from
    ``i - left`` to ``i + right``.
    """
    shape = _check_layout(query, key, value)
    kind = float_of(query, key, value)
    q, k, v = (_with_examples(wide(x, kind)) for x in (query, key, value))
    mine, theirs = shape_of(plain(q)), shape_of(plain(k))
    shared = theirs[2]
    q = xp.reshape(q, (*mine[:2], shared, mine[2] // shared, mine[3]))  # BTKGH
    scores = xp.einsum("btkgh,bskh->bkgts", q, k)
    scores = xp.reshape(scores, (mine[0], mine[2], mine[1], theirs[1]))
    scores = scores * (_usual_scale(mine[3], kind.compute) if scale is None else scale)
    scores = scores if bias is None else scores + wide(bias, kind)
    near = _near(below(mine[1]), theirs[1], is_causal, local_window_size)
    seen = _both(_both(_checked(mask), near), _within(key_value_seq_lengths, theirs[1], 3))
    scores = _hidden(scores, seen, kind.compute)
    weights = xp.reshape(softmax(scores), (mine[0], shared, mine[2] // shared, mine[1], theirs[1]))
    found = xp.einsum("bkgts,bskh->btkgh", weights, v)
    if query_seq_lengths is not None:
        counts = xp.expand_dims(_within(query_seq_lengths, mine[1], 1), (-1, -2, -3))
        found = xp.where(counts, found, 0)
    return xp.astype(xp.reshape(found, (*shape[:-1], shape_of(plain(value))[-1])), kind)


def _usual_scale(size: Dim, kind: DType) -> Any:
    """``1 / sqrt(size)``, where the size may be known in the call only."""
    if isinstance(size, int):
        return 1 / math.sqrt(max(size, 1))
    return xp.astype(xp.divide(1.0, xp.sqrt(size)), kind)


def _with_examples(x: Any) -> Any:
    """An operand with an axis of examples in front."""
    return x if len(shape_of(plain(x))) == 4 else xp.expand_dims(x, 0)


def _checked(mask: Any) -> Any:
    """A mask of bools, or None."""
    if mask is not None and known_dtype(xp.asarray(mask).dtype) is not BOOL:
        raise DTypeError(
            f"dot_product_attention: expected a mask of bools, found {xp.asarray(mask).dtype}",
            origin=user_origin(),
            remedy="pass mask != 0; numbers that are added to scores are the bias",
        )
    return mask


def _both(mask: Any, other: Any) -> Any:
    """Where two masks hold, of which one that is None holds everywhere."""
    if mask is None or other is None:
        return other if mask is None else mask
    return xp.logical_and(mask, other)


def _near(places: Any, others: Dim, is_causal: bool, window: Window) -> Any:
    """Which values (S) each of some places (T) sees by its distance, (T, S); None where all."""
    left, right = _sides(window)
    right = 0 if is_causal else right
    ahead = xp.subtract(below(others), xp.expand_dims(places, -1))
    before = None if right is None else xp.less_equal(ahead, right)
    return _both(before, None if left is None else xp.greater_equal(ahead, -left))


def _sides(window: Window) -> tuple[int | None, int | None]:
    """How far a position sees to the left and to the right; None is without an end."""
    if window is None:
        return None, None
    sides: Any = (window, window) if isinstance(window, int) else tuple(window)
    if len(sides) != 2 or not all(isinstance(n, int) and n >= 0 for n in sides):
        raise ArgumentError(
            f"dot_product_attention: expected a local_window_size of one or two whole numbers from "
            f"0 on, found {window!r:.40}",
            origin=user_origin(),
            remedy="for each position, the three values before it and itself are "
            "local_window_size=(3, 0)",
        )
    return sides


def _within(lengths: Any, count: Dim, axes: int) -> Any:
    """Which positions are within the lengths of their examples, (B, ..., count); None where all."""
    if lengths is None:
        return None
    flat = xp.reshape(lengths, (-1, *(1 for _ in range(axes))))
    return xp.less(below(count), flat)


def _hidden(scores: Any, seen: Any, kind: DType) -> Any:
    """Scores that are as low as possible where nothing is to be seen, and finite as in JAX."""
    return scores if seen is None else xp.where(seen, scores, -0.7 * float(xp.finfo(kind).max))


def _check_layout(query: Any, key: Any, value: Any) -> Shape:
    """Queries, keys and values have one layout; the shape of the queries."""
    q, k, v = (shape_of(plain(x)) for x in (query, key, value))
    fits = len(q) in (3, 4) and len(q) == len(k) == len(v) and q[:-3] == k[:-3] == v[:-3]
    if not fits or q[-1] != k[-1] or k[:-1] != v[:-1]:
        raise ShapeError(
            "dot_product_attention: expected query (B, T, N, H), key and value (B, S, K, H), found "
            f"{shown_shape(q)}, {shown_shape(k)} and {shown_shape(v)}",
            origin=user_origin(),
            remedy="put heads behind positions; from PyTorch pass dlvm.swapaxes(x, -3, -2)",
        )
    if isinstance(q[-2], int) and isinstance(k[-2], int) and (k[-2] < 1 or q[-2] % k[-2]):
        raise ShapeError(
            f"dot_product_attention: {q[-2]} heads of queries can't share {k[-2]} heads of keys",
            origin=user_origin(),
            remedy="give a number of heads of queries that is a multiple of that of keys",
        )
    return q


@exported("nn.multi_head_attention")
def multi_head_attention(
    params: Mapping[str, Any],
    query: Any,
    key: Any = None,
    value: Any = None,
    bias: Any = None,
    mask: Any = None,
    *,
    is_causal: bool = False,
    positions: Any = None,
    cache: Mapping[str, Any] | None = None,
    local_window_size: Window = None,
) -> Any:
    """Attention between projections of rows of features, projected back and added over heads.

    ``params`` are those of ``flax.linen.MultiHeadDotProductAttention``: at ``"query"``, ``"key"``
    and ``"value"`` a ``"kernel"`` (E, N, H) and a ``"bias"`` (N, H) that may be missing, at
    ``"out"`` (N, H, E) and (E). Rows are (B, T, E) or (T, E). ``key`` is ``query`` if it is None,
    and ``value`` is ``key``.

    With ``positions`` (T) queries and keys are turned by ``rotary``. With a ``cache``, of
    ``{"key": (B, S, N, H), "value": (B, S, N, H), "index": count}``, keys and values are written
    behind those that it counts, each position sees what is before it and itself, and the result is
    ``(y, cache)``. More than S of them are an error of the call. ``local_window_size`` is that of
    ``dot_product_attention``.
    """
    key = query if key is None else key
    value = key if value is None else value
    rows = {"query": query, "key": key, "value": value}
    q, k, v = (_heads(word, _part(params, word), x) for word, x in rows.items())
    if positions is not None:
        q, k = rotary(q, positions), rotary(k, positions)
    if cache is None:
        options: dict[str, Any] = {"is_causal": is_causal, "local_window_size": local_window_size}
        found = dot_product_attention(q, k, v, bias, mask, **options)
        return _joined(_part(params, "out"), found)
    seen, cache = _cached(cache, k, v, local_window_size)
    seen = seen if mask is None else xp.logical_and(mask, seen)
    found = dot_product_attention(q, cache["key"], cache["value"], bias, seen)
    return _joined(_part(params, "out"), found), cache


def _cached(cache: Mapping[str, Any], k: Any, v: Any, window: Window) -> tuple[Any, dict[str, Any]]:
    """Which places each of the new positions sees, (T, S), and the cache with them."""
    if {*cache} != {"key", "value", "index"}:
        raise ArgumentError(
            "multi_head_attention: expected a cache with a key, a value and an index, found "
            f"{[*map(str, cache)]!r:.60}",
            origin=user_origin(),
            remedy="pass that of a nn.MultiHeadAttention: layer.init_cache(batch, length)",
        )
    steps = shape_of(plain(k))[-3]
    places = xp.add(below(steps), cache["index"])
    whole = (slice(None),) * (len(shape_of(plain(k))) - 3)
    held = {
        word: named("at")(xp.asarray(cache[word]))[(*whole, places)].set(
            xp.astype(x, cache[word].dtype)
        )
        for word, x in (("key", k), ("value", v))
    }
    size = shape_of(plain(cache["key"]))[-3]
    seen = _near(places, size, True, window)
    return seen, {**held, "index": xp.add(cache["index"], steps)}


def _part(params: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    """The kernel and the bias of one projection."""
    part = params.get(word)
    if not isinstance(part, Mapping) or "kernel" not in part:
        found = shown(part) if word in params else f"only the keys {[*map(str, params)]!r:.60}"
        raise ArgumentError(
            f"multi_head_attention: expected a dict with a kernel at {word!r}, found {found}",
            origin=user_origin(),
            remedy='give {"query": {"kernel": w}, "key": ..., "value": ..., "out": ...}',
        )
    return cast("Mapping[str, Any]", part)


def _heads(word: str, part: Mapping[str, Any], x: Any) -> Any:
    """Rows of features (..., E) as heads (..., N, H)."""
    given, (features, heads, size) = shape_of(plain(x)), shape_of(plain(part["kernel"]))
    if len(given) not in (2, 3) or given[-1] != features:
        raise ShapeError(
            f"multi_head_attention: the {word} needs the shape (B, T, {features}) or "
            f"(T, {features}), found {shown_shape(given)}",
            origin=user_origin(),
            remedy=f"pass rows of as many features as the {word} kernel takes",
        )
    found = xp.matmul(x, xp.reshape(part["kernel"], (features, heads * size)))
    found = xp.reshape(found, (*given[:-1], heads, size))
    return found if part.get("bias") is None else found + part["bias"]


def _joined(part: Mapping[str, Any], x: Any) -> Any:
    """Heads (..., N, H) as rows of features (..., E)."""
    given, (heads, size, features) = shape_of(plain(x)), shape_of(plain(part["kernel"]))
    kernel = xp.reshape(part["kernel"], (heads * size, features))
    found = xp.matmul(xp.reshape(x, (*given[:-2], heads * size)), kernel)
    return found if part.get("bias") is None else found + part["bias"]


@exported("nn.rotary")
def rotary(x: Any, positions: Any, base: float = 10000.0) -> Any:
    """Each pair of features turned by an angle that grows with the position (Su et al., 2021).

    ``x`` is (..., T, N, H) and ``positions`` (T) or (..., T). The pair ``i`` is of the features
    ``i`` and ``i + H/2``, as in Llama and GPT-NeoX; its angle is ``position * base**(-2 i / H)``.
    """
    shape = shape_of(plain(x))
    if len(shape) < 3 or not isinstance(shape[-1], int) or shape[-1] % 2:
        raise ShapeError(
            f"rotary: expected x of shape (..., T, N, H), H even, found {shown_shape(shape)}",
            origin=user_origin(),
            remedy="pass heads of an even number of features, such as queries of attention",
        )
    kind, half = float_of(x), shape[-1] // 2
    speeds = xp.asarray([base ** (-i / max(half, 1)) for i in range(half)])
    angles = xp.expand_dims(xp.astype(positions, "f64"), (-2, -1)) * speeds
    cos, sin = (xp.astype(f(angles), kind.compute) for f in (xp.cos, xp.sin))
    x = wide(x, kind)
    a, b = x[..., :half], x[..., half:]
    return xp.astype(xp.concat([a * cos - b * sin, a * sin + b * cos], -1), kind)
