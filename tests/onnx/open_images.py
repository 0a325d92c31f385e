"""Models of images: classifiers, U-Nets, detectors, resizes, windows."""

from __future__ import annotations

from typing import Any

import numpy as np

from .open_models import LAST, NODE, WHOLE, Build, F, axis_size, drawn, model, whole

IMAGE = [
    dict(batch=b, height=h, width=w)
    for b, h, w in ((1, 8, 8), (2, 16, 24), (3, 40, 8), (1, 64, 72))
]
ODD = [
    dict(batch=b, height=h, width=w) for b, h, w in ((1, 1, 1), (2, 7, 11), (3, 13, 2), (1, 31, 17))
]
PICTURE = ("batch", 3, "height", "width")


@model({"x": PICTURE}, {"y": 2}, [*IMAGE, *ODD[1:2]])
def classifier():
    """A stem with a step, pooling, a residual block, the mean of each channel."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        NODE("Relu", ["a"], ["r"]),
        NODE("MaxPool", ["r"], ["m"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        NODE("Conv", ["m", "w2"], ["b"], pads=[1] * 4),
        NODE("Add", ["b", "m"], ["s"]),
        NODE("Conv", ["m", "w3"], ["c"], strides=[2, 2]),
        NODE("Conv", ["s", "w2"], ["d"], pads=[1] * 4, strides=[2, 2]),
        NODE("Add", ["c", "d"], ["e"]),
        NODE("GlobalAveragePool", ["e"], ["g"]),
        NODE("Flatten", ["g"], ["f"]),
        NODE("Gemm", ["f", "w4"], ["y"]),
    ]
    return nodes, dict(
        w1=drawn(4, 3, 3, 3), w2=drawn(4, 4, 3, 3), w3=drawn(4, 4, 1, 1), w4=drawn(4, 5)
    )


@model({"x": PICTURE}, {"y": 4}, IMAGE)
def unet():
    """A transposed convolution joined with what was pooled, which needs even sizes."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], pads=[1] * 4),
        NODE("MaxPool", ["a"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        NODE("Conv", ["m", "w2"], ["b"], pads=[1] * 4),
        NODE("MaxPool", ["b"], ["m2"], kernel_shape=[2, 2], strides=[2, 2]),
        NODE("ConvTranspose", ["m2", "w3"], ["u2"], strides=[2, 2]),
        NODE("Concat", ["b", "u2"], ["j2"], axis=1),
        NODE("ConvTranspose", ["j2", "w4"], ["u1"], strides=[2, 2]),
        NODE("Concat", ["a", "u1"], ["y"], axis=1),
    ]
    return nodes, dict(
        w1=drawn(4, 3, 3, 3), w2=drawn(4, 4, 3, 3), w3=drawn(4, 4, 2, 2), w4=drawn(8, 4, 2, 2)
    )


@model({"x": PICTURE}, {"y": 4}, ODD)
def twice_as_large():
    """ConvTranspose with windows of 2 and of 4, whose results have the same size."""
    nodes = [
        NODE("ConvTranspose", ["x", "w1"], ["a"], strides=[2, 2]),
        NODE("ConvTranspose", ["x", "w2"], ["b"], strides=[2, 2], pads=[1] * 4),
        NODE(
            "ConvTranspose", ["x", "w3"], ["c"], strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]
        ),
        NODE("Add", ["a", "b"], ["d"]),
        NODE("Add", ["c", "d"], ["y"]),
    ]
    return nodes, dict(w1=drawn(3, 4, 2, 2), w2=drawn(3, 4, 4, 4), w3=drawn(3, 4, 3, 3))


@model({"x": PICTURE}, {"y": 4}, [*IMAGE, *ODD[1:]])
def pooled_and_transposed():
    """``2 * (n // 2)`` by a pool and a transposed convolution, and by a resize."""
    nodes = [
        NODE("MaxPool", ["x"], ["m"], kernel_shape=[2, 2], strides=[2, 2]),
        NODE("ConvTranspose", ["m", "w"], ["a"], strides=[2, 2]),
        NODE(
            "Resize",
            ["m", "", "scales"],
            ["b"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        NODE("Add", ["a", "b"], ["y"]),
    ]
    return nodes, dict(w=drawn(3, 3, 2, 2), scales=np.array([1, 1, 2, 2], np.float32))


@model({"x": PICTURE}, {"y": 4}, IMAGE)
def yolo():
    """Steps of 2, enlarged again by constant scales and joined."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        NODE("Conv", ["a", "w2"], ["b"], pads=[1] * 4, strides=[2, 2]),
        NODE("Conv", ["b", "w2"], ["c"], pads=[1] * 4, strides=[2, 2]),
        NODE("MaxPool", ["c"], ["p"], kernel_shape=[5, 5], pads=[2] * 4),
        NODE("Concat", ["c", "p"], ["cp"], axis=1),
        NODE(
            "Resize",
            ["cp", "", "scales"],
            ["u"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        NODE("Concat", ["u", "b"], ["j"], axis=1),
        NODE(
            "Resize",
            ["j", "", "scales"],
            ["u2"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        NODE("Concat", ["u2", "a"], ["y"], axis=1),
    ]
    return nodes, dict(
        w1=drawn(4, 3, 3, 3), w2=drawn(4, 4, 3, 3), scales=np.array([1, 1, 2, 2], np.float32)
    )


@model({"x": PICTURE}, {"y": 3}, IMAGE)
def detection_heads():
    """Maps of two scales as rows of boxes, joined."""
    nodes = [
        NODE("Conv", ["x", "w1"], ["a"], pads=[1] * 4, strides=[2, 2]),
        NODE("Conv", ["a", "w2"], ["b"], pads=[1] * 4, strides=[2, 2]),
        *axis_size("x", 0, "n"),
        NODE("Concat", ["n", "rest"], ["flat"], axis=0),
        NODE("Reshape", ["a", "flat"], ["ra"]),
        NODE("Reshape", ["b", "flat"], ["rb"]),
        NODE("Concat", ["ra", "rb"], ["j"], axis=2),
        NODE("Transpose", ["j"], ["y"], perm=[0, 2, 1]),
    ]
    return nodes, dict(w1=drawn(4, 3, 3, 3), w2=drawn(4, 4, 3, 3), rest=whole(4, -1))


def _resized(mode: str, places: str, scale: float, **more: Any) -> Build:
    def build():
        scales = np.array([1, 1, scale, scale], np.float32)
        return [
            NODE(
                "Resize",
                ["x", "", "scales"],
                ["y"],
                mode=mode,
                coordinate_transformation_mode=places,
                **more,
            )
        ], dict(scales=scales)

    build.__name__ = f"resize_{mode}_{places}_{scale}"
    return build


for _build in (
    _resized("nearest", "asymmetric", 2.0, nearest_mode="floor"),
    _resized("nearest", "half_pixel", 2.0),
    _resized("nearest", "asymmetric", 0.5, nearest_mode="floor"),
    _resized("linear", "half_pixel", 2.0),
    _resized("linear", "pytorch_half_pixel", 2.0),
    _resized("linear", "align_corners", 2.0),
    _resized("linear", "asymmetric", 3.0),
    _resized("cubic", "half_pixel", 2.0, cubic_coeff_a=-0.75),
    _resized("linear", "half_pixel", 1.5),
):
    model({"x": PICTURE}, {"y": 4}, ODD if "0.5" not in _build.__name__ else [*IMAGE, *ODD[1:2]])(
        _build
    )


@model({"x": ("batch", 3, 5, 7)}, {"y": 4}, [dict(batch=b) for b in (1, 3, 7)])
def resize_by_shape():
    """The sizes are the batch and channels of the image, joined with numbers."""
    nodes = [
        NODE("Shape", ["x"], ["s"], end=2),
        NODE("Concat", ["s", "rest"], ["sizes"], axis=0),
        NODE("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    return nodes, {"rest": whole(10, 9)}


@model({"x": PICTURE}, {"y": 4}, [*IMAGE, *ODD[1:]])
def resize_to_another():
    """A map enlarged to the size of another one, as in a pyramid of features."""
    nodes = [
        NODE("Conv", ["x", "w"], ["a"], pads=[1] * 4, strides=[2, 2]),
        NODE("Shape", ["a"], ["head"], end=2),
        NODE("Shape", ["x"], ["tail"], start=2),
        NODE("Concat", ["head", "tail"], ["sizes"], axis=0),
        NODE("Resize", ["a", "", "", "sizes"], ["b"], mode="linear"),
        NODE("Add", ["b", "x"], ["y"]),
    ]
    return nodes, dict(w=drawn(3, 3, 3, 3))


@model({"x": PICTURE}, {"y": 4}, ODD)
def resize_by_a_float():
    """Sizes times 2.0, rounded down, as the exporter of ``interpolate`` writes it."""
    nodes = [
        NODE("Shape", ["x"], ["head"], end=2),
        NODE("Shape", ["x"], ["tail"], start=2),
        NODE("Cast", ["tail"], ["f"], to=F),
        NODE("Mul", ["f", "two"], ["g"]),
        NODE("Floor", ["g"], ["h"]),
        NODE("Cast", ["h"], ["i"], to=WHOLE),
        NODE("Concat", ["head", "i"], ["sizes"], axis=0),
        NODE(
            "Resize",
            ["x", "", "", "sizes"],
            ["y"],
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
    ]
    return nodes, dict(two=np.float32(2))


@model({"x": PICTURE}, {"y": 4}, [*IMAGE, *ODD], most=5)  # one for each pair of remainders
def windows_of_attention():
    """Padded to a multiple of 4 and cut in windows, as Swin does, then put together and cut."""
    nodes: list[Any] = [
        *axis_size("x", 0, "b"),
        *axis_size("x", 2, "h"),
        *axis_size("x", 3, "w"),
    ]
    for n in "hw":
        nodes += [
            NODE("Mod", [n, "four"], [f"{n}m"]),
            NODE("Sub", ["four", f"{n}m"], [f"{n}d"]),
            NODE("Mod", [f"{n}d", "four"], [f"{n}p"]),
            NODE("Add", [n, f"{n}p"], [f"{n}n"]),
            NODE("Div", [f"{n}n", "four"], [f"{n}w"]),
        ]
    nodes += [
        NODE("Concat", ["zeros", "hp", "wp"], ["pads"], axis=0),
        NODE("Pad", ["x", "pads"], ["padded"]),
        NODE("Concat", ["b", "three", "hw", "four", "ww", "four"], ["cut"], axis=0),
        NODE("Reshape", ["padded", "cut"], ["c"]),
        NODE("Transpose", ["c"], ["t"], perm=[0, 2, 4, 3, 5, 1]),
        NODE("Softmax", ["t"], ["s"], axis=-1),
        NODE("Transpose", ["s"], ["back"], perm=[0, 5, 1, 3, 2, 4]),
        NODE("Concat", ["b", "three", "hn", "wn"], ["whole"], axis=0),
        NODE("Reshape", ["back", "whole"], ["u"]),
        NODE("Concat", ["h", "w"], ["ends"], axis=0),
        NODE("Slice", ["u", "starts", "ends", "axes"], ["v"]),
        NODE("Add", ["v", "x"], ["y"]),
    ]
    return nodes, dict(
        four=whole(4), three=whole(3), zeros=whole(*[0] * 6), starts=whole(0, 0), axes=whole(2, 3)
    )


@model({"x": PICTURE}, {"y": 4}, [*IMAGE, *ODD[1:2]])
def pools() -> tuple[Any, ...]:
    """Means and extremes of windows with padding, also with a last window that is cut off."""
    nodes = [
        NODE("AveragePool", ["x"], ["a"], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4),
        NODE("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        NODE(
            "AveragePool", ["b"], ["y"], kernel_shape=[2, 2], auto_pad="SAME_UPPER", strides=[2, 2]
        ),
    ]
    return nodes, {}


@model({"x": PICTURE}, {"y": 4}, IMAGE)
def space_to_depth() -> tuple[Any, ...]:
    """Blocks of 2 by 2 as channels and back, of even sizes."""
    nodes = [
        NODE("SpaceToDepth", ["x"], ["a"], blocksize=2),
        NODE("DepthToSpace", ["a"], ["b"], blocksize=2),
        NODE("Add", ["x", "b"], ["y"]),
    ]
    return nodes, {}


@model({"x": PICTURE}, {"y": 4}, IMAGE)
def focus():
    """Every second row and column from four places, as YOLOX and YOLOv5 begin; of even sizes."""
    nodes: list[Any] = []
    for k in range(4):
        nodes.append(NODE("Slice", ["x", f"s{k}", "end", "axes", "two"], [f"p{k}"]))
    nodes.append(NODE("Concat", ["p0", "p1", "p2", "p3"], ["y"], axis=1))
    return nodes, dict(
        s0=whole(0, 0),
        s1=whole(1, 0),
        s2=whole(0, 1),
        s3=whole(1, 1),
        end=whole(LAST, LAST),
        axes=whole(2, 3),
        two=whole(2, 2),
    )
