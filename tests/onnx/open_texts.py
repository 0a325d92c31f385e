"""Models of text and sound: tables of positions, masks, pasts, convolutions over time."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from .open_models import NODE, WHOLE, axis_size, drawn, model, whole

TEXT = [dict(batch=b, time=t) for b, t in ((1, 1), (2, 7), (3, 13), (1, 16))]


@model({"ids": ("batch", "time")}, {"y": 3}, TEXT, kinds={"ids": WHOLE})
def positions_from_a_table():
    """``position_ids[:, :n]``, as in each BERT of HuggingFace."""
    nodes = [
        *axis_size("ids", 1, "n"),
        NODE("Slice", ["places", "zero", "n", "one"], ["mine"]),
        NODE("Gather", ["words", "ids"], ["e"]),
        NODE("Gather", ["table", "mine"], ["p"]),
        NODE("Add", ["e", "p"], ["y"]),
    ]
    return nodes, dict(
        places=np.arange(16)[None],
        zero=whole(0),
        one=whole(1),
        words=drawn(7, 4),
        table=drawn(16, 4),
    )


@model(
    {"q": ("batch", "time", 4), "k": ("batch", "keys", 4)},
    {"y": 3},
    [dict(batch=b, time=t, keys=k) for b, t, k in ((1, 1, 1), (2, 3, 7), (1, 1, 11), (3, 5, 5))],
    most=2,  # one for as many keys as queries
)
def causal_mask_from_a_table():
    """``bias[k - q : k, :k]`` of a constant triangle, as in GPT-2."""
    nodes = [
        *axis_size("q", 1, "nq"),
        *axis_size("k", 1, "nk"),
        NODE("Sub", ["nk", "nq"], ["from"]),
        NODE("Slice", ["bias", "from", "nk", "zero"], ["rows"]),
        NODE("Slice", ["rows", "zero", "nk", "one"], ["mask"]),
        NODE("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        NODE("MatMul", ["q", "kt"], ["s"]),
        NODE("Where", ["mask", "s", "least"], ["masked"]),
        NODE("Softmax", ["masked"], ["p"], axis=-1),
        NODE("MatMul", ["p", "k"], ["y"]),
    ]
    return nodes, dict(
        bias=np.tril(np.ones((16, 16), bool)), zero=whole(0), one=whole(1), least=np.float32(-1e9)
    )


@model(
    {
        "x": ("batch", "time", 4),
        "past_k": ("batch", "past_a", 4),
        "past_v": ("batch", "past_b", 4),
    },
    {"y": 3},
    [
        dict(batch=b, time=t, past_a=p, past_b=p)
        for b, t, p in ((1, 1, 1), (2, 3, 7), (1, 1, 11), (3, 5, 0))
    ],
)
def past_under_two_names() -> tuple[Any, ...]:
    """Keys and values of the past whose lengths have two names; they are one."""
    nodes = [
        NODE("Concat", ["past_k", "x"], ["k"], axis=1),
        NODE("Concat", ["past_v", "x"], ["v"], axis=1),
        NODE("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        NODE("MatMul", ["x", "kt"], ["s"]),
        NODE("Softmax", ["s"], ["p"], axis=-1),
        NODE("MatMul", ["p", "v"], ["y"]),
    ]
    return nodes, {}


@model(
    {"x": ("batch", "time", 4), "mask": ("rows", "total"), "past": ("batch", "old", 4)},
    {"y": 3},
    [
        dict(batch=b, rows=b, time=t, old=p, total=p + t)
        for b, t, p in ((1, 1, 1), (2, 3, 7), (1, 1, 11), (3, 5, 0))
    ],
)
def mask_of_the_whole_length():
    """A mask whose length is that of the past and the present together, under a name of its own."""
    nodes = [
        NODE("Concat", ["past", "x"], ["k"], axis=1),
        NODE("Transpose", ["k"], ["kt"], perm=[0, 2, 1]),
        NODE("MatMul", ["x", "kt"], ["s"]),
        NODE("Unsqueeze", ["mask", "one"], ["m"]),
        NODE("Add", ["s", "m"], ["masked"]),
        NODE("Softmax", ["masked"], ["p"], axis=-1),
        NODE("MatMul", ["p", "k"], ["y"]),
    ]
    return nodes, dict(one=whole(1))


@model({"x": ("batch", "time", 4)}, {"y": 3}, TEXT)
def clipped_length():
    """``x[:, :min(1000000000, n)]``."""
    nodes = [
        *axis_size("x", 1, "n"),
        NODE("Min", ["n", "most"], ["m"]),
        NODE("Slice", ["x", "zero", "m", "one"], ["part"]),
        NODE("Add", ["x", "part"], ["y"]),
    ]
    return nodes, dict(most=whole(1000000000), zero=whole(0), one=whole(1))


@model({"x": ("batch", "time", 6)}, {"y": 3}, TEXT)
def heads():
    """Attention whose shapes are computed by Shape, Gather and Concat, with an expanded mask."""
    nodes = [
        *axis_size("x", 0, "b"),
        *axis_size("x", 1, "t"),
        NODE("Concat", ["b", "t", "parts"], ["split"], axis=0),
        NODE("Reshape", ["x", "split"], ["h"]),
        NODE("Transpose", ["h"], ["q"], perm=[0, 2, 1, 3]),
        NODE("Transpose", ["h"], ["k"], perm=[0, 2, 3, 1]),
        NODE("MatMul", ["q", "k"], ["s"]),
        NODE("Concat", ["b", "minus", "t", "t"], ["wish"], axis=0),
        NODE("Shape", ["wish"], ["count"]),
        NODE("ConstantOfShape", ["count"], ["ones"], value=onnx.numpy_helper.from_array(whole(1))),
        NODE("Mul", ["ones", "minus"], ["all_minus"]),
        NODE("Equal", ["wish", "all_minus"], ["is_minus"]),
        NODE("Where", ["is_minus", "ones", "wish"], ["target"]),
        NODE("Expand", ["bias", "target"], ["e"]),
        NODE("Add", ["s", "e"], ["a"]),
        NODE("Softmax", ["a"], ["p"], axis=-1),
        NODE("MatMul", ["p", "q"], ["o"]),
        NODE("Transpose", ["o"], ["back"], perm=[0, 2, 1, 3]),
        NODE("Concat", ["b", "t", "six"], ["joined"], axis=0),
        NODE("Reshape", ["back", "joined"], ["y"]),
    ]
    return nodes, dict(parts=whole(2, 3), minus=whole(-1), six=whole(6), bias=drawn(1, 1, 1, 1))


@model({"x": ("batch", 1, "samples")}, {"y": 2}, [dict(batch=b, samples=700) for b in (1, 3)])
def frames_of_which_there_is_one():
    """A long window: how many frames there are is fixed by the samples, of whatever batch."""
    nodes = [
        NODE("Conv", ["x", "w"], ["frames"], strides=[512]),
        NODE("Squeeze", ["frames", "last"], ["y"]),
    ]
    return nodes, dict(w=drawn(3, 1, 512), last=whole(2))


@model({"x": ("batch", "time", 4)}, {"y": 3}, TEXT)
def ranges_of_floats():
    """``arange(0.5, n, 1.5)`` and ``arange(n, 0, -1)`` of a size that was made a float."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Gather", ["s", "one"], ["n"], axis=0),
        NODE("Cast", ["n"], ["f"], to=1),
        NODE("Range", ["half", "f", "step"], ["up"]),
        NODE("ReduceSum", ["up"], ["total"], keepdims=1),
        NODE("Range", ["f", "none", "back"], ["down"]),
        NODE("Unsqueeze", ["down", "last"], ["column"]),
        NODE("Mul", ["x", "column"], ["scaled"]),
        NODE("Add", ["scaled", "total"], ["y"]),
    ]
    floats = {"half": 0.5, "step": 1.5, "none": 0.0, "back": -1.0}
    return nodes, dict(
        one=np.array(1), last=whole(1), **{n: np.array(x, np.float32) for n, x in floats.items()}
    )


@model({"x": ("batch", "time", 4)}, {"y": 3}, TEXT)
def range_of_positions():
    """``arange(n)`` and a triangle made of it."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Gather", ["s", "one"], ["n"], axis=0),
        NODE("Range", ["zero", "n", "one"], ["r"]),
        NODE("Unsqueeze", ["r", "last"], ["column"]),
        NODE("LessOrEqual", ["r", "column"], ["mask"]),
        NODE("Transpose", ["x"], ["xt"], perm=[0, 2, 1]),
        NODE("MatMul", ["x", "xt"], ["scores"]),
        NODE("Where", ["mask", "scores", "least"], ["masked"]),
        NODE("Softmax", ["masked"], ["p"], axis=-1),
        NODE("MatMul", ["p", "x"], ["y"]),
    ]
    return nodes, dict(zero=np.array(0), one=np.array(1), last=whole(1), least=np.float32(-1e9))


@model(
    {"x": ("batch", "time", 4)},
    {"y": 3},
    [dict(batch=b, time=t) for b, t in ((1, 1), (2, 7), (3, 13), (1, 19))],
)
def relative_positions():
    """A slice of a constant by ``m - n : m + n - 1``, as relative attention takes it."""
    nodes = [
        *axis_size("x", 1, "n"),
        NODE("Sub", ["middle", "n"], ["from"]),
        NODE("Add", ["middle", "n"], ["end"]),
        NODE("Sub", ["end", "one"], ["to"]),
        NODE("Slice", ["table", "from", "to", "zero"], ["p"]),
        NODE("Transpose", ["p"], ["pt"], perm=[1, 0]),
        NODE("MatMul", ["x", "pt"], ["y"]),
    ]
    return nodes, dict(middle=whole(20), zero=whole(0), one=whole(1), table=drawn(39, 4))


# -- sound -----------------------------------------------------------------------------------------

SOUND = [dict(batch=b, time=t) for b, t in ((1, 32), (2, 37), (3, 64), (1, 101))]


@model({"x": ("batch", 3, "time")}, {"y": 3}, SOUND)
def conv_on_an_open_length():
    """Two convolutions with steps and a table of positions, as an encoder of speech begins."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], pads=[1, 1]),
        NODE("Relu", ["a"], ["r"]),
        NODE("Conv", ["r", "w2"], ["b"], pads=[1, 1], strides=[2]),
        NODE("Transpose", ["b"], ["t"], perm=[0, 2, 1]),
        *axis_size("t", 1, "n"),
        NODE("Slice", ["table", "zero", "n", "zero"], ["p"]),
        NODE("Add", ["t", "p"], ["y"]),
    ]
    return nodes, dict(w1=drawn(4, 3, 3), w2=drawn(4, 4, 3), table=drawn(60, 4), zero=whole(0))


@model({"x": ("batch", 1, "time")}, {"y": 3}, SOUND)
def waves():
    """Valid convolutions with large steps, as encoders of waves have, and a transposed one."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], strides=[5]),
        NODE("Relu", ["a"], ["r"]),
        NODE("Conv", ["r", "w2"], ["b"], strides=[2]),
        NODE("ConvTranspose", ["b", "w3"], ["y"], strides=[2], pads=[1, 1]),
    ]
    return nodes, dict(w1=drawn(4, 1, 10), w2=drawn(4, 4, 2), w3=drawn(4, 2, 4))


@model({"x": ("batch", 2, "time")}, {"y": 3}, SOUND)
def gated_block():
    """A dilated convolution, split in two gates, added to what it was made of."""
    nodes = [
        NODE("Conv", ["x", "w"], ["a"], pads=[2, 2], dilations=[2]),
        NODE("Split", ["a"], ["p", "q"], axis=1, num_outputs=2),
        NODE("Tanh", ["p"], ["pt"]),
        NODE("Sigmoid", ["q"], ["qs"]),
        NODE("Mul", ["pt", "qs"], ["g"]),
        NODE("Add", ["x", "g"], ["y"]),
    ]
    return nodes, dict(w=drawn(4, 2, 3))


@model({"x": ("time", "batch", 3)}, {"y": 4}, TEXT)
def lstm():
    """A recurrent layer over an open length."""
    return [NODE("LSTM", ["x", "w", "r"], ["y"], hidden_size=2)], dict(
        w=drawn(1, 8, 3), r=drawn(1, 8, 2)
    )
