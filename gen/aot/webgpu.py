"""What a page needs to run a function by WebGPU: WGSL, and the launches of a call as a table.

The table is written beside the WebAssembly of the same function, with which it shares arguments,
results, messages and the file of weights; ``webgpu.js`` runs either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from dlvm.base.errors import UserError
from dlvm.gen.gpu.executable import DeviceExecutable
from dlvm.gen.gpu.recording import Copied, Launched, Recording, record

from .layout import Layout, Weight, up


def device_table(made: DeviceExecutable, plan: Layout) -> tuple[Layout, dict[str, Any]]:
    """The table of a function, and its layout with the constants that only the table has."""
    if plan.sizes:
        raise UserError(
            f"{plan.name}: expected sizes that are known for target='webgpu', found the open size "
            f"{plan.sizes[0][1]}",
            remedy="give dlvm.spec numbers for every size, such as dlvm.spec('f32[8,3]')",
        )
    call = record(made)
    plan, weights = _weights(made, plan, call)
    return plan, {
        "buffers": call.buffers,
        "status": call.status,
        "arguments": [call.params[a.index] for a in plan.arguments],
        "results": call.results,
        "weights": weights,
        "kernels": call.kernels,
        "steps": [*map(_step, call.steps)],
        "text": made.code.text,
    }


def device_file(table: Mapping[str, Any]) -> bytes:
    """The table as JSON, on one line, as it is long."""
    return json.dumps(table, separators=(",", ":")).encode()


def _weights(
    made: DeviceExecutable, plan: Layout, call: Recording
) -> tuple[Layout, list[tuple[int, int, int]]]:
    """Which parts of the file of weights go where in memory: the place, the start, the bytes."""
    known = {id(w.array): w for w in plan.weights}
    end, found = plan.weight_bytes, list[tuple[int, int, int]]()
    for i, (place, array) in enumerate(zip(call.constants, made.program.constants, strict=True)):
        if id(array) not in known:
            known[id(array)] = Weight(f"constant {i} of WebGPU", array, end, None)
            end = up(end + array.nbytes)
        found.append((place, known[id(array)].offset, array.nbytes))
    for w in plan.weights:
        if w.param is not None:
            found.append((call.params[w.param], w.offset, w.array.nbytes))
    return replace(plan, weights=tuple(known.values())), found


def _step(step: Launched | Copied) -> dict[str, Any]:
    if isinstance(step, Copied):
        return {"source": step.source, "target": step.target}
    words, parts = list(step.words), list(step.parts)
    return {"kernel": step.kernel, "blocks": step.blocks, "words": words, "parts": parts}
