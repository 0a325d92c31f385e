"""Packs programs into one file: their launches, PTX, machine code, and the bits of a CPU.

The file is a program of Python: its other half, ``played``, is packed with it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.gpu.device import DeviceCode
from dlvm.gen.gpu.devices.choosing import using
from dlvm.ir import BF16, Array

from .played.recording import digested, sampled
from .programs import Packed, made
from .recorder import Recorder, fingerprint

PLAYED = Path(__file__).parent / "played"
MAIN = """from pathlib import Path

from played.main import main

if __name__ == "__main__":
    main(Path(__file__).parent)
"""
LIMIT = 8 << 20
"""Bytes of the file at most."""
STORED = 1024
"""Elements of a large result that are stored beside the digest of all."""
ASSEMBLE = 300
"""Seconds for ``ptxas``."""


class Packing:
    """The file while it is written."""

    def __init__(self, path: Path, target: str, dry: bool) -> None:
        self.target, self.dry = target, dry
        self.file = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        self.cases: dict[str, dict[str, Any]] = {}

    def __enter__(self) -> Packing:
        self.file.writestr("__main__.py", MAIN)
        for source in sorted(PLAYED.glob("*.py")):
            self.file.write(source, f"played/{source.name}")
        return self

    def __exit__(self, *error: object) -> None:
        self.file.writestr("cases.json", json.dumps(self.cases))
        self.file.close()

    def pack(self, name: str, case: Packed) -> None:
        """One program."""
        start = time.perf_counter()
        arguments = [made(r) for r in case.recipes] or list(case.arguments)
        f = dlvm.function(case.program, target=self.target)
        compiled = f.compile(*arguments)
        code: DeviceCode = compiled.road.executable.code.code
        inputs = {fingerprint(a): r for a, r in zip(arguments, case.recipes, strict=case.large)}
        recorder = Recorder(inputs, runs=self.dry or not case.large)
        with using(recorder):
            results = dlvm.tree.leaves(f(*arguments))
        expected = leaves(dlvm.function(case.program)(*rows(case, arguments)))
        told = [
            self._result(name, i, case, recorder, x, y)
            for i, (x, y) in enumerate(zip(results, expected, strict=True))
        ]
        self._code(name, code)
        for key, array in recorder.stored.items():
            self.file.writestr(f"cases/{name}/{key}", array.tobytes())
        moved = sum(a.nbytes for a in leaves(arguments)) + sum(x.nbytes for x in results)
        self.cases[name] = {
            "steps": recorder.steps,
            "results": told,
            "large": case.large,
            "timed": case.timed,
            "moved": moved,
            "flops": case.flops,
            "cubin": f"cases/{name}/cubin" in self.file.namelist(),
        }
        launches = sum(s[0] == "launch" for s in recorder.steps)
        print(f"{name:32} {launches} launches, {time.perf_counter() - start:.1f} s", flush=True)

    def _result(
        self, name: str, i: int, case: Packed, recorder: Recorder, ours: Any, expected: Array
    ) -> dict[str, Any]:
        """Where a result is, its digest, and the elements that are stored."""
        dtype = "bf16" if expected.dtype == BF16.numpy else expected.dtype.str
        flat = plain(expected).reshape(-1)
        count = min(flat.size, STORED) if case.large else flat.size
        self.file.writestr(f"cases/{name}/r{i}", flat[sampled(flat.size, count)].tobytes())
        whole = not case.tolerance and flat.size == ours.size
        return {
            "place": recorder.place(ours.address),
            "shape": list(ours.shape),
            "dtype": dtype,
            "digest": digested(flat, dtype) if whole else "",
            "stop": flat.size,
            "tolerance": case.tolerance or (0 if whole else TOLERANCE[dtype]),
        }

    def _code(self, name: str, code: DeviceCode) -> None:
        """PTX, machine code where there is an assembler, and what runs in a dry run."""
        self.file.writestr(f"cases/{name}/ptx", code.ptx)
        if self.dry:
            kernels = [k for phases in code.kernels.values() for k in phases]
            told = {k.loops.name: [k.lanes, len(k.loops.buffers)] for k in kernels}
            self.file.writestr(f"cases/{name}/emulated", json.dumps(told))
        elif (found := assembled(code.ptx, code.target.cpu)) is not None:
            self.file.writestr(f"cases/{name}/cubin", found)


TOLERANCE: Mapping[str, float] = {"<f8": 1e-12, "<f4": 1e-4}
"""For rows of a product alone, whose sums a CPU may take in another order than those of all."""


def rows(case: Packed, arguments: list[Any]) -> list[Any]:
    """The arguments of what is compared with a CPU."""
    first, *rest = arguments
    return [first[: case.compared], *rest] if case.compared else arguments


def leaves(x: Any) -> list[Array]:
    """The arrays of a tree."""
    return [np.asarray(a) for a in dlvm.tree.leaves(x)]


def plain(x: Array) -> Array:
    """An array of a type that NumPy has: of bf16 the bits."""
    return np.ascontiguousarray(x).view("u2") if x.dtype == BF16.numpy else x


def assembled(ptx: str, cpu: str) -> bytes | None:
    """Machine code; None without ``ptxas``."""
    tool = shutil.which("ptxas")
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        source, found = Path(folder, "a.ptx"), Path(folder, "a.cubin")
        source.write_text(ptx, "utf8")
        command = [tool, f"-arch={cpu}", str(source), "-o", str(found)]
        subprocess.run(command, check=True, capture_output=True, timeout=ASSEMBLE)
        return found.read_bytes()
