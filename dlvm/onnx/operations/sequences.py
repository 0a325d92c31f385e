"""Layers of models of long sequences: attention with a state, and causal convolutions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlvm.dsl.flow.loops import scan
from dlvm.dsl.words.namespace import xp
from dlvm.nn import conv
from dlvm.onnx.graphs import concrete
from dlvm.onnx.table import Call, operation

from .operands import kind, like, shape


def _wide(x: Any) -> Any:
    """Numbers of 16 bits in f32, as sums over many steps need."""
    return xp.astype(x, np.float32) if kind(x).itemsize < 4 else x


def _unpacked(x: Any, heads: int) -> Any:
    """(batch, time, heads * size) as (time, batch, heads, size)."""
    n, steps, width = shape(x)
    return xp.swapaxes(xp.reshape(x, (n, steps, heads, width // heads)), 0, 1)


@operation("LinearAttention")
def _linear_attention(
    call: Call, q: Any, k: Any, v: Any, past: Any = None, decay: Any = None, beta: Any = None
) -> Any:
    """A state of keys times values, which each step decays, writes and reads."""
    heads, shared = call["q_num_heads"], call["kv_num_heads"]
    rule = call.get("update_rule", "gated_delta")
    wide = [_wide(x) for x in (q, k, v)]
    qs, ks, vs = (_unpacked(x, n) for x, n in zip(wide, (heads, shared, shared), strict=True))
    sizes, width = shape(qs), shape(vs)[3]
    qs = xp.reshape(qs, (*sizes[:2], shared, heads // shared, sizes[3]))
    scale = call.get("scale", 0.0) or 1 / math.sqrt(sizes[3])
    zeros = xp.zeros((sizes[1], shared, sizes[3], width), dtype=kind(qs))
    rates = xp.exp(_unpacked(_wide(decay), shared)) if decay is not None else None
    steps = xp.swapaxes(_wide(beta), 0, 1) if beta is not None else None

    def step(state: Any, row: dict[str, Any]) -> tuple[Any, Any]:
        key, new = row["k"], row["v"]
        if "rate" in row:
            state = state * xp.expand_dims(row["rate"], -1)
        if "delta" in rule:
            new = new - xp.einsum("bhkv,bhk->bhv", state, key)
        if "beta" in row:
            new = new * xp.expand_dims(row["beta"], -1)
        state = state + xp.einsum("bhk,bhv->bhkv", key, new)
        return state, xp.einsum("bhrk,bhkv->bhrv", row["q"], state) * scale

    rows = {"q": qs, "k": ks, "v": vs, "rate": rates, "beta": steps}
    given = {name: concrete(x) for name, x in rows.items() if x is not None}
    last, found = scan(step, concrete(zeros if past is None else _wide(past)), given)
    found = xp.reshape(xp.swapaxes(found, 0, 1), (sizes[1], sizes[0], heads * width))
    return like(found, q), like(last, q if past is None else past)


@operation("CausalConvWithState")
def _causal_conv(call: Call, x: Any, w: Any, b: Any = None, past: Any = None) -> Any:
    n, channels, _ = shape(x)
    before = shape(w)[2] - 1
    zeros = xp.zeros((n, channels, before), dtype=x.dtype)
    wide = xp.concat([zeros if past is None else past, x], axis=2)
    found = conv(wide, w, padding="VALID", groups=channels, layout="channels_first")
    found = found if b is None else found + xp.reshape(b, (1, -1, 1))
    if call.get("activation", "none").lower() in ("silu", "swish"):
        found = found * xp.sigmoid(found)
    return found, wide[:, :, shape(wide)[2] - before :]
