"""Imported networks and layers of convolutions beside onnxruntime, in turns in one process.

    python -m benchmarks.networks [--only TEXT] [--batch N] [--threads N] [--rounds N] [--json FILE]

Graphs are those that torchvision's exporter writes, batch norms folded, with random weights; both
read the same bytes. Results are compared before anything is timed, and the least time of each
counts.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

RNG = np.random.default_rng(0)
Contenders = dict[str, Callable[[], Any]]


class Net:
    """An ONNX graph while it is written; every method gives the name of what it adds."""

    def __init__(self) -> None:
        self.helper = importlib.import_module("onnx.helper")
        self.arrays = importlib.import_module("onnx.numpy_helper")
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, *shape: int) -> str:
        """Random weights that keep numbers near one."""
        name = f"w{len(self.weights)}"
        fan = max(1, int(np.prod(shape[1:])))
        values = RNG.normal(size=shape) * np.sqrt(2 / fan)
        self.weights.append(self.arrays.from_array(values.astype(np.float32), name))
        return name

    def node(self, kind: str, *inputs: str, **options: Any) -> str:
        """One operation."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(self.helper.make_node(kind, list(inputs), [name], **options))
        return name

    def conv(self, x: str, c: int, o: int, k: int, stride: int = 1, group: int = 1) -> str:
        """A convolution with a bias; images keep their size but for the stride."""
        pads, steps = [k // 2] * 4, [stride] * 2
        weights = self.weight(o, c // group, k, k), self.weight(o)
        return self.node("Conv", x, *weights, pads=pads, strides=steps, group=group)

    def head(self, x: str, c: int) -> str:
        """The mean of each channel, and a thousand scores."""
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        return self.node("Gemm", x, self.weight(1000, c), self.weight(1000), transB=1)

    def model(self, out: str, *shape: int) -> bytes:
        """The bytes of a model whose input is ``x``."""
        make, float_ = self.helper, 1
        given = [make.make_tensor_value_info("x", float_, shape)]
        result = [make.make_tensor_value_info(out, float_, None)]
        graph = make.make_graph(self.nodes, "net", given, result, self.weights)
        opset = [make.make_opsetid("", 17)]
        return make.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def resnet18(batch: int, side: int = 224) -> tuple[bytes, tuple[int, ...]]:
    """He et al. (2015), for images of this many pixels along a side."""
    net = Net()
    x = net.node("Relu", net.conv("x", 3, 64, 7, 2))
    x = net.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for o in (64, 128, 256, 512):
        for stride in (1 if o == 64 else 2, 1):
            y = net.conv(net.node("Relu", net.conv(x, c, o, 3, stride)), o, o, 3)
            short = x if c == o else net.conv(x, c, o, 1, stride)
            x, c = net.node("Relu", net.node("Add", y, short)), o
    shape = (batch, 3, side, side)
    return net.model(net.head(x, c), *shape), shape


def mobilenet_v2(batch: int) -> tuple[bytes, tuple[int, ...]]:
    """Sandler et al. (2018)."""
    net = Net()
    low, high = (
        net.arrays.from_array(np.array(n, np.float32), s) for n, s in ((0, "lo"), (6, "hi"))
    )
    net.weights += [low, high]

    def conv(x: str, *sizes: int) -> str:
        return net.node("Clip", net.conv(x, *sizes), "lo", "hi")

    x, c = conv("x", 3, 32, 3, 2), 32
    blocks = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1))
    for wider, o, count, first in (*blocks, (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            stride, e = (first if i == 0 else 1), c * wider
            y = x if wider == 1 else conv(x, c, e, 1)
            y = net.conv(conv(y, e, e, 3, stride, e), e, o, 1)
            x, c = (net.node("Add", x, y) if stride == 1 and c == o else y), o
    shape = (batch, 3, 224, 224)
    return net.model(net.head(conv(x, c, 1280, 1), 1280), *shape), shape


LAYERS = {
    "1x1 64-256 56": (64, 256, 1, 1, 1, 56),
    "1x1 96-24 56": (96, 24, 1, 1, 1, 56),
    "1x1 960-160 7": (960, 160, 1, 1, 1, 7),
    "3x3 64 56": (64, 64, 3, 1, 1, 56),
    "3x3 128 28": (128, 128, 3, 1, 1, 28),
    "3x3 256 14": (256, 256, 3, 1, 1, 14),
    "3x3 512 7": (512, 512, 3, 1, 1, 7),
    "3x3/2 64-128 56": (64, 128, 3, 2, 1, 56),
    "3x3 16 160": (16, 16, 3, 1, 1, 160),
    "7x7/2 3-64 224": (3, 64, 7, 2, 1, 224),
    "3x3/2 3-32 224": (3, 32, 3, 2, 1, 224),
    "depthwise 3x3 96 112": (96, 96, 3, 1, 96, 112),
    "depthwise 3x3/2 96 112": (96, 96, 3, 2, 96, 112),
    "depthwise 5x5 240 14": (240, 240, 5, 1, 240, 14),
    "groups 4 128 28": (128, 128, 3, 1, 4, 28),
    "groups 32 256 14": (256, 256, 3, 1, 32, 14),
}
"""Channels in and out, window, stride, groups, and the size of the images."""


def layer(batch: int, c: int, o: int, k: int, stride: int, group: int, size: int) -> Any:
    """A convolution alone."""
    net, shape = Net(), (batch, c, size, size)
    return net.model(net.conv("x", c, o, k, stride, group), *shape), shape


def models(batch: int) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Every row: its name, and what makes the bytes and the shape of the input."""
    for name, sizes in LAYERS.items():
        yield name, lambda sizes=sizes: layer(batch, *sizes)
    yield "ResNet-18", lambda: resnet18(batch)
    yield "MobileNetV2", lambda: mobilenet_v2(batch)


def raced(data: bytes, shape: tuple[int, ...], threads: int, rounds: int) -> dict[str, float]:
    """The least milliseconds of both, and the largest difference of their results."""
    dlvm, runtime = importlib.import_module("dlvm"), importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    model, x = dlvm.onnx.load(data), RNG.normal(size=shape).astype(np.float32)
    start = time.perf_counter()
    (found,) = model(x)
    first = time.perf_counter() - start
    (expected,) = session.run(None, {"x": x})
    apart = float(np.abs(np.asarray(found) - expected).max() / np.abs(expected).max())
    runs: Contenders = {"dlvm": lambda: model(x), "peer": lambda: session.run(None, {"x": x})}
    least = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            least[name] = min(least[name], time.perf_counter() - start)
    ours, peer = 1e3 * least["dlvm"], 1e3 * least["peer"]
    return {"ms": ours, "peer ms": peer, "ratio": ours / peer, "apart": apart, "first s": first}


def main() -> None:
    """Prints a row for each, and the geometric mean of the ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.networks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["DLVM_THREADS"] = str(options.threads)
    found: dict[str, dict[str, float]] = {}
    print(f"{'':24} {'ms':>8} {'ort ms':>8} {'ratio':>6} {'apart':>8} {'first s':>8}")
    for name, made in models(options.batch):
        if options.only in name:
            row = found[name] = raced(*made(), options.threads, options.rounds)
            ms, peer, ratio, apart, first = row.values()
            told = f"{name:24} {ms:8.3f} {peer:8.3f} {ratio:6.2f} {apart:8.1e} {first:8.2f}"
            print(told, flush=True)
    if found:
        mean = np.exp(np.mean([np.log(row["ratio"]) for row in found.values()]))
        print(f"geometric mean of {len(found)} ratios: {mean:.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
