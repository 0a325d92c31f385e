"""Runs the text of a StableHLO module in XLA, and looks at it with the tools in jaxlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="the tests of StableHLO need jax: pip install jax")

mlir = pytest.importorskip("jax._src.interpreters.mlir")
xla_client = pytest.importorskip("jax._src.lib").xla_client
ir = pytest.importorskip("jaxlib.mlir.ir")
passmanager = pytest.importorskip("jaxlib.mlir.passmanager")
stablehlo = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")

NUMBERS = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "i1"}
OPEN = (
    "builtin.module(stablehlo-refine-arguments{{types={types}}},stablehlo-refine-shapes,"
    "func.func(stablehlo-canonicalize-dynamism))"
)


def typed(array: np.ndarray[Any, Any]) -> str:
    name = array.dtype.name
    kind = NUMBERS.get(name) or name.replace("uint", "ui").replace("int", "i")
    return f"tensor<{''.join(f'{n}x' for n in array.shape)}{kind}>"


def verified(text: str, arrays: Sequence[np.ndarray[Any, Any]] = ()) -> str:
    """The module in the form that can be kept: parsed, verified, sizes filled in."""
    stablehlo.register_stablehlo_passes()
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        if "?" in text and arrays:
            types = ",".join(map(typed, arrays))
            passmanager.PassManager.parse(OPEN.format(types=types)).run(module.operation)
        return str(module)


def kept(text: str) -> bytes:
    """The module as readers of twelve weeks ago read it."""
    stablehlo.register_stablehlo_passes()
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(
            module.operation
        )
        weeks = stablehlo.StablehloCompatibilityRequirement.WEEK_12
        version = stablehlo.get_version_from_compatibility_requirement(weeks)
        return stablehlo.serialize_portable_artifact_str(str(module), version)


def run(text: str, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The results of XLA on the processor."""
    with jax.enable_x64(True):
        device = jax.devices("cpu")[0]
        options = xla_client.CompileOptions()
        devices = xla_client.DeviceList((device,))
        program = device.client.compile_and_load(verified(text, arrays), devices, options)
        given = [jax.device_put(a, device) for a in arrays]
        found = program.execute_sharded(given).disassemble_into_single_device_arrays()
        return [np.asarray(row[0]) for row in found]
