"""Attention, and positions as angles.

Heads are an axis of their own inside: (batch, heads, positions, features). Masks become one bias
of 0 and -inf; a position that may see nothing at all has the result 0.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.dsl.words.namespace import xp
from dlvm.nn import softmax
from dlvm.onnx.table import Call, operation
from dlvm.onnx.tensors import dtype_of

from .operands import kind, like, rank, shape

WITH_CAP, WITH_BIAS, WEIGHTS = 1, 2, 3
"""What the fourth result of an attention is, beside the bare products."""


@operation("Attention")
def _attention(
    call: Call,
    q: Any,
    k: Any,
    v: Any,
    mask: Any = None,
    past_k: Any = None,
    past_v: Any = None,
    lengths: Any = None,
) -> Any:
    packed = rank(q) == 3
    if packed:
        own, shared = call["q_num_heads"], call["kv_num_heads"]
        q, k, v = _heads(q, own), _heads(k, shared), _heads(v, shared)
    keys = k if past_k is None else xp.concat([past_k, k], axis=2)
    values = v if past_v is None else xp.concat([past_v, v], axis=2)
    scores = _scores(call, q, _repeated(keys, q))
    bias = _bias(call, q, keys, mask, past_k, lengths)
    biased, weights = _weights(call, scores, bias)
    found = xp.matmul(weights, _repeated(values, q))
    if packed:
        found = xp.permute_dims(found, (0, 2, 1, 3))
        found = xp.reshape(found, (*shape(found)[:2], shape(found)[2] * shape(found)[3]))
    shown = {WITH_BIAS: biased, WEIGHTS: weights}.get(call.get("qk_matmul_output_mode", 0), scores)
    return found, keys, values, like(shown, q)


def _heads(x: Any, count: int) -> Any:
    """(batch, positions, heads * features) with an axis of heads in front of the positions."""
    n, steps, size = shape(x)
    return xp.permute_dims(xp.reshape(x, (n, steps, count, size // count)), (0, 2, 1, 3))


def _repeated(x: Any, q: Any) -> Any:
    """Keys or values once for each head of the queries; several heads may share one."""
    times = shape(q)[1] // shape(x)[1]
    return x if isinstance(times, int) and times == 1 else xp.repeat(x, times, axis=1)


def _scores(call: Call, q: Any, k: Any) -> Any:
    """``q @ k.T * scale``; each factor has the root of the scale, which keeps 16 bits in range."""
    scale = call.get("scale")
    root = math.sqrt(1 / math.sqrt(shape(q)[3]) if scale is None else scale)
    scores = xp.matmul(like(q * root, q), xp.matrix_transpose(like(k * root, k)))
    cap = call.get("softcap", 0.0)
    return xp.tanh(scores / cap) * cap if cap > 0 else scores


def _weights(call: Call, scores: Any, bias: Any) -> tuple[Any, Any]:
    """The scores with the bias, and their softmax."""
    biased = scores if bias is None else scores + bias
    precision = call.get("softmax_precision")
    wide = biased if precision is None else xp.astype(biased, dtype_of(precision))
    if bias is None:
        return biased, like(softmax(wide, axis=-1), scores)
    blind = xp.isneginf(xp.max(bias, axis=-1, keepdims=True))
    weights = softmax(xp.where(blind, xp.zeros_like(wide), wide), axis=-1)
    return biased, like(xp.where(blind, xp.zeros_like(weights), weights), scores)


def _bias(call: Call, q: Any, k: Any, mask: Any, past: Any, lengths: Any) -> Any:
    """The sum of all masks: 0 where a key counts, -inf where it does not; None without masks."""
    dtype, queries, keys = kind(q), shape(q)[2], shape(k)[2]
    parts: list[Any] = []
    if mask is not None:
        parts.append(_stretched(mask, keys, dtype))
    if lengths is not None:
        offset: Any = xp.reshape(lengths, (-1, 1, 1, 1)) - queries
    else:
        offset = 0 if past is None else shape(past)[2]
    rows = xp.reshape(xp.arange(queries), (queries, 1)) + offset
    columns = xp.reshape(xp.arange(keys), (1, keys))
    left, right = call.get("left_window_size", -1), call.get("right_window_size", -1)
    seen: list[Any] = [columns <= rows] if call.get("is_causal", 0) else []
    seen += [columns >= rows - left] if left >= 0 else []
    seen += [columns <= rows + right] if right >= 0 else []
    if lengths is not None:
        seen.append(columns < xp.reshape(lengths, (-1, 1, 1, 1)))
    parts += [_hidden(x, dtype) for x in seen]
    return sum(parts[1:], parts[0]) if parts else None


def _hidden(seen: Any, dtype: np.dtype[Any]) -> Any:
    """0 where a mask is true, -inf elsewhere."""
    return xp.astype(xp.where(seen, 0.0, -np.inf), dtype)


def _stretched(mask: Any, keys: Any, dtype: np.dtype[Any]) -> Any:
    """A mask as a bias for all keys; those that it does not reach are hidden."""
    bias = _hidden(mask, dtype) if kind(mask).kind == "b" else like(mask, np.empty(0, dtype))
    more = keys - shape(mask)[-1]
    if isinstance(more, int) and more == 0:
        return bias
    return xp.pad(bias, [*[(0, 0)] * (rank(bias) - 1), (0, more)], constant_values=-np.inf)


@operation("RotaryEmbedding")
def _rotary(call: Call, x: Any, cos: Any, sin: Any, positions: Any = None) -> Any:
    packed = rank(x) == 3
    heads = _heads(x, call["num_heads"]) if packed else x
    size = call.get("rotary_embedding_dim", 0) or shape(heads)[3]
    turned, rest = heads[..., :size], heads[..., size:]
    if positions is not None:
        flat = xp.reshape(positions, (-1,))
        sizes = (*shape(positions), shape(cos)[1])
        cos, sin = (xp.reshape(xp.take(t, flat, axis=0), sizes) for t in (cos, sin))
    cos, sin = xp.expand_dims(cos, 1), xp.expand_dims(sin, 1)
    paired = bool(call.get("interleaved", 0))
    half = size // 2
    a = turned[..., 0::2] if paired else turned[..., :half]
    b = turned[..., 1::2] if paired else turned[..., half:]
    parts = [cos * a - sin * b, sin * a + cos * b]
    if paired:
        found = xp.reshape(xp.stack(parts, axis=-1), shape(turned))
    else:
        found = xp.concat(parts, axis=-1)
    found = xp.concat([found, rest], axis=-1)
    return xp.reshape(xp.permute_dims(found, (0, 2, 1, 3)), shape(x)) if packed else found
