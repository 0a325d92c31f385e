"""The error for a compiled call that found no memory: what it asked for, and for which values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import OutOfMemory
from dlvm.compile import Road
from dlvm.ir.interpret import bind
from dlvm.ir.sizes.dims import evaluate
from dlvm.ir.types import TAPE, TensorType, known


def short_of_memory(error: MemoryError, road: Road, arrays: Sequence[Any]) -> OutOfMemory:
    """The error for a call on such arrays; one that says itself what is missing keeps its words."""
    name = road.traced.main.name
    if isinstance(error, OutOfMemory):
        return error
    params = road.traced.main.params
    types, labels = [p.type for p in params], [p.name or "an argument" for p in params]
    sizes = bind(types, [np.asarray(x) for x in arrays], labels)
    results = [known(t, sizes) for t in road.traced.main.signature.results if t.dtype != TAPE]
    asked = [f"{nbytes(t):,} bytes for the result {t}" for t in results]
    report = getattr(road.executable, "report", None)
    if report is not None and (scratch := evaluate(report.peak_bytes, sizes)):
        asked.append(f"{scratch:,} bytes for values in between")
    said = f": {error}" if str(error) else ""
    return OutOfMemory(f"{name}: no memory is left{said}; the call takes {', '.join(asked)}")


def nbytes(t: TensorType) -> int:
    """The bytes of an array whose sizes are known."""
    return evaluate(t.size, {}) * t.dtype.bytes
