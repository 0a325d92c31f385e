"""Shared libraries of objects, by a linker that is found on this machine; objects need none."""

from __future__ import annotations

import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from dlvm.base import system
from dlvm.base.errors import UserError
from dlvm.target import Target

GNU = {
    "x86_64": ("x86_64-linux-gnu-gcc",),
    "aarch64": ("aarch64-linux-gnu-gcc",),
    "riscv64": ("riscv64-linux-gnu-gcc",),
}
"""Compilers of C that link for a processor, by the first part of its triple."""
OWN = ("cc", "gcc", "clang")
"""Those that link for the machine that they are on."""
SECONDS = 120


def linkers(target: Target) -> list[str]:
    """The programs that could link a library for a target, the best first."""
    processor = target.triple.split("-")[0]
    own = OWN if platform.machine() == processor and system.HERE == "Linux" else ()
    return [*own, *GNU.get(processor, ()), "ld.lld"] if "linux" in target.triple else []


def shared(code: bytes, target: Target) -> bytes:
    """The content of a shared library that holds an object and needs no other one."""
    looked_for = linkers(target)
    if not looked_for:
        raise UserError(
            f"shared libraries are made for Linux, found the triple {target.triple}",
            remedy="link the object or the static library",
        )
    linker = next(filter(None, map(shutil.which, looked_for)), None)
    if linker is None:
        raise UserError(
            f"a shared library takes a linker; none of {', '.join(looked_for)} is on PATH",
            remedy="install one of them, or link the object where it is used",
        )
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder, "part.o"), Path(folder, "whole.so")
        source.write_bytes(code)
        alone = [] if linker.endswith("lld") else ["-nostartfiles"]
        command = [linker, "-shared", *alone, "-o", str(made), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines() or ["it says nothing"]
            raise UserError(f"{linker} can't link the object: {said[-1]}")
        return made.read_bytes()
