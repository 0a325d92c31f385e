"""A recorded call of a program, on a device: memory, steps, and what the results should be.

The steps of a recording are lists: ``alloc`` memory, ``write`` a stored or a drawn array, ``read``
what is known, ``copy``, and ``launch``. Memory has numbers; a place is one of them and an offset.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .drawn import drawn, widened
from .driver import CudaError, Gpu


class Bundle:
    """The packed file: a table of cases, and of each its code and arrays."""

    def __init__(self, path: Path) -> None:
        self.file = zipfile.ZipFile(path)
        self.cases: dict[str, dict[str, Any]] = json.loads(self.file.read("cases.json"))

    def code(self, case: str, kind: str) -> bytes:
        """The ``ptx`` of a case, or its ``cubin``, with a zero behind it, where text ends."""
        return self.file.read(f"cases/{case}/{kind}") + b"\0"

    def has(self, case: str, kind: str) -> bool:
        """Whether a case has code of a kind."""
        return f"cases/{case}/{kind}" in self.file.namelist()

    def stored(self, case: str, name: str) -> Any:
        """The bytes of an array."""
        return np.frombuffer(self.file.read(f"cases/{case}/{name}"), "u1")


@dataclass
class Step:
    """One thing to ask of the device; those that ``repeats`` are what is timed."""

    ask: Callable[[], None]
    repeats: bool = False
    launches: bool = False


class Recording:
    """A case whose code is loaded and whose memory is taken."""

    def __init__(self, gpu: Gpu, bundle: Bundle, name: str, kind: str) -> None:
        self.gpu, self.bundle, self.name = gpu, bundle, name
        self.told = bundle.cases[name]
        self.module = gpu.module(bundle.code(name, kind))
        self.memory: dict[int, int] = {}
        self.functions: dict[str, Any] = {}
        self.inputs: list[tuple[Any, str]] = []
        """The arrays that were drawn, with their types."""
        self.steps = [step for said in self.told["steps"] for step in self._steps(*said)]

    def run(self) -> None:
        """Everything, in order."""
        for step in self.steps:
            step.ask()

    def again(self) -> None:
        """Launches and copies on the device."""
        for step in self.steps:
            if step.repeats:
                step.ask()

    @property
    def launches(self) -> int:
        """How many kernels run."""
        return sum(step.launches for step in self.steps)

    def free(self) -> None:
        """Gives all memory back."""
        for address in self.memory.values():
            self.gpu.free(address)

    def _steps(self, kind: str, *said: Any) -> list[Step]:
        gpu = self.gpu
        match kind:
            case "alloc":
                number, count = said
                self.memory[number] = gpu.allocate(count)
                return []
            case "write":
                place, source = said
                array, at = self._source(source), self._at(place)
                return [Step(lambda: gpu.write(at, array))]
            case "read":
                place, name = said
                known, at = self.bundle.stored(self.name, name), self._at(place)
                return [Step(lambda: self._known(at, known))]
            case "copy":
                target, source, count = said
                places = self._at(target), self._at(source)
                return [Step(lambda: gpu.copy(*places, count), repeats=True)]
            case _:
                return [self._launch(*said)]

    def _launch(self, name: str, blocks: int, lanes: int, at: Any, sizes: Any, status: Any) -> Step:
        if name not in self.functions:
            self.functions[name] = self.gpu.function(self.module, name)
        words = [*map(self._at, at), *sizes, self._at(status)]
        held = (ctypes.c_uint64 * len(words))(*(w % (1 << 64) for w in words))
        first, function = ctypes.addressof(held), self.functions[name]
        places = (ctypes.c_void_p * len(words))(*(first + 8 * i for i in range(len(words))))

        def ask() -> None:
            _ = held  # which the places point into
            self.gpu.launch(function, blocks, lanes, places)

        return Step(ask, repeats=True, launches=True)

    def _at(self, place: Any) -> int:
        number, offset = place
        return self.memory[number] + offset

    def _source(self, source: Any) -> Any:
        if isinstance(source, str):
            return self.bundle.stored(self.name, source)
        array = drawn(source)
        self.inputs.append((array, "bf16" if source[2] == "bf16" else ""))
        return array

    def _known(self, at: int, known: Any) -> None:
        """What the host read when this was recorded, on which the steps after depend."""
        found = np.empty_like(known)
        self.gpu.read(at, found)
        if not np.array_equal(found, known):
            told = f"found {bytes(found[:16]).hex()}, recorded {bytes(known[:16]).hex()}"
            raise ValueError(f"the host read something else: {told}")

    # -- results -----------------------------------------------------------------------------------

    def judged(self) -> dict[str, Any]:
        """Whether the results have the bits of a CPU, or are as near as is stated."""
        found: dict[str, Any] = {"right": True}
        for i, result in enumerate(self.told["results"]):
            told = self._judged(i, **result)
            found["right"] &= told["right"]
            if "same_bits" in told:
                found["same_bits"] = found.get("same_bits", True) and told["same_bits"]
            if not told.get("same_bits", True) or not told["right"]:
                found.setdefault("apart", []).append({"result": i, **told})
        return found

    def _judged(
        self, i: int, place: Any, shape: Any, dtype: str, digest: str, stop: int, tolerance: float
    ) -> dict[str, Any]:
        """One result: by its digest, and by the elements that are stored if that is another."""
        bits = "<u2" if dtype == "bf16" else dtype
        array = np.empty(shape, bits)
        self.gpu.read(self._at(place), array)
        flat = array.reshape(-1)
        if digest and digested(flat, dtype) == digest:
            return {"right": True, "same_bits": True}
        expected = self.bundle.stored(self.name, f"r{i}").view(bits)
        which = sampled(stop, expected.size)
        ours, known = widened(flat[which], dtype), widened(expected, dtype)
        with np.errstate(all="ignore"):
            far = np.abs(ours.astype("f8") - known.astype("f8")) / (1 + np.abs(known.astype("f8")))
        far[np.isnan(ours.astype("f8")) & np.isnan(known.astype("f8"))] = 0
        other = np.flatnonzero(~(far == 0))
        told: dict[str, Any] = {"same_bits": False} if digest else {}
        told["right"] = bool(tolerance and np.all(far <= tolerance))
        told |= {"furthest": float(np.max(far, initial=0)), "tolerance": tolerance}
        if other.size:
            first = int(other[0])
            told |= {"first": int(which[first]), "found": str(ours[first])}
            told |= {"expected": str(known[first]), "other": f"{other.size} of {known.size}"}
        return told


def digested(flat: Any, dtype: str) -> str:
    """The digest of an array's bytes; a NaN is as good as another, as processors have their own."""
    values = widened(flat, dtype)
    if values.dtype.kind in "fc" and np.isnan(values).any():
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values)
    else:
        values = flat
    return hashlib.sha256(np.ascontiguousarray(values).view("u1")).hexdigest()


def sampled(stop: int, count: int) -> Any:
    """The numbers of so many elements of the first ``stop``."""
    return np.linspace(0, max(0, stop - 1), count).astype("i8")


__all__ = ["Bundle", "CudaError", "Recording", "digested", "sampled"]
