"""Small models with open sizes, of kinds that exporters write, and the sizes they are run at.

``python -m tests.onnx.open_models`` prints how many programs each needs. Results are compared with
onnxruntime's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]

import dlvm
from dlvm.gen.call.sizes import largest

helper = onnx.helper
NODE = helper.make_node
F, WHOLE, TRUTH = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
DTYPES: dict[int, Any] = {F: np.float32, WHOLE: np.int64, TRUTH: np.bool_}
LAST = np.iinfo(np.int64).max
Build = Callable[[], tuple[Any, ...]]


@dataclass(frozen=True)
class OpenModel:
    """A model: its nodes, inputs with open sizes, weights, and values of the open sizes."""

    nodes: Sequence[Any]
    inputs: dict[str, tuple[Any, ...]]
    outputs: dict[str, int]
    sizes: Sequence[dict[str, int]]
    weights: dict[str, Any]
    kinds: dict[str, int]
    opset: int
    most: int

    def data(self) -> bytes:
        """The file."""
        tensors = [onnx.numpy_helper.from_array(np.asarray(w), n) for n, w in self.weights.items()]
        graph = helper.make_graph(
            list(self.nodes),
            "net",
            [
                helper.make_tensor_value_info(n, self.kinds.get(n, F), shape)
                for n, shape in self.inputs.items()
            ],
            [
                helper.make_tensor_value_info(n, self.kinds.get(n, F), [None] * rank)
                for n, rank in self.outputs.items()
            ],
            tensors,
        )
        found = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9
        )
        return found.SerializeToString()

    def drawn(self, sizes: dict[str, int]) -> dict[str, Any]:
        """Inputs for values of the open sizes."""
        rng = np.random.default_rng(sum(sizes.values()))
        return {n: self._drawn(rng, n, shape, sizes) for n, shape in self.inputs.items()}

    def _drawn(self, rng: Any, name: str, shape: tuple[Any, ...], sizes: dict[str, int]) -> Any:
        numbers = tuple(sizes[n] if isinstance(n, str) else n for n in shape)
        kind = self.kinds.get(name, F)
        if kind == F:
            return rng.normal(size=numbers).astype(np.float32)
        return rng.integers(0, 2 if kind == TRUTH else 7, numbers).astype(DTYPES[kind])


MODELS: dict[str, Callable[[], OpenModel]] = {}


def model(
    inputs: dict[str, tuple[Any, ...]],
    outputs: dict[str, int],
    sizes: Sequence[dict[str, int]],
    *,
    kinds: dict[str, int] | None = None,
    opset: int = 18,
    most: int = 1,
) -> Callable[[Build], Build]:
    """Adds a model; ``most`` is how many programs the values of its open sizes may need."""

    def add(build: Build) -> Build:
        def made() -> OpenModel:
            nodes, weights = build()
            return OpenModel(nodes, inputs, outputs, sizes, weights, kinds or {}, opset, most)

        MODELS[build.__name__] = made
        return build

    return add


def drawn(*shape: int) -> Any:
    """Weights."""
    return (np.random.default_rng(len(shape)).normal(size=shape) / 3).astype(np.float32)


def whole(*numbers: int) -> Any:
    """A row of integers."""
    return np.array(numbers, np.int64)


def axis_size(x: str, axis: int, name: str) -> list[Any]:
    """The nodes that make a size of an array a row of one."""
    return [
        NODE("Shape", [x], [f"{name}.shape"]),
        NODE("Constant", [], [f"{name}.axis"], value=onnx.numpy_helper.from_array(np.array(axis))),
        NODE("Gather", [f"{name}.shape", f"{name}.axis"], [f"{name}.0"], axis=0),
        NODE("Constant", [], [f"{name}.axes"], value=onnx.numpy_helper.from_array(whole(0))),
        NODE("Unsqueeze", [f"{name}.0", f"{name}.axes"], [name]),
    ]


FAST = 1 << 10
"""Sizes up to which the fast entry of every program must know all that a call needs."""


def programs(case: OpenModel) -> int:
    """How many programs the model makes for its sizes; results are compared with onnxruntime's."""
    data = case.data()
    found = dlvm.onnx.load(data)
    session: Any = onnxruntime.InferenceSession(data)
    for sizes in case.sizes:
        given = case.drawn(sizes)
        expected = session.run(None, given)
        for x, y in zip(found(**given), expected, strict=True):
            assert x.shape == y.shape, (sizes, x.shape, y.shape)
            np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5, err_msg=str(sizes))
    for program in found.programs:
        interface: Any = program.road.executable.interface  # type: ignore[union-attr]
        assert not interface.symbols or largest(interface) >= FAST, "Python computes its sizes"
    return len(found.programs)


def main() -> None:
    """Prints the programs of each model."""
    for part in ("open_images", "open_texts"):
        import_module(f"tests.onnx.{part}")
    wanted = sys.argv[1:] or sorted(MODELS)
    for name in wanted:
        case = MODELS[name]()
        try:
            print(f"{name:45} {programs(case)} of {len(case.sizes)} sizes", flush=True)
        except Exception as error:
            print(f"{name:45} {type(error).__name__}: {str(error)[:150]!r}", flush=True)


if __name__ == "__main__":
    import_module("tests.onnx.open_models").main()  # the module in which the others add models
