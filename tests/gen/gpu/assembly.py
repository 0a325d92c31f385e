"""What stands in the PTX of a program, and what an assembler makes of it.

``python -m tests.gen.gpu.assembly WORDS`` prints both for those programs of ``PROGRAMS`` whose
names hold all of these words.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import dlvm

from .kinds import KINDS, layer_norm, softmax

PROCESSORS = "sm_80", "sm_90a", "sm_100"
COLUMNS = 1024, 4096, 8192, 16384


def _rows(dtype, n):
    x, own = dlvm.spec(f"{dtype}[16384,{n}]"), dlvm.spec(f"{dtype}[{n}]")
    yield "softmax", softmax, (x,)
    yield "layer norm", layer_norm, (x, own, own)
    yield "sum of rows", lambda x: x.sum(axis=1), (x,)


def _matrices(dtype, n):
    x = dlvm.spec(f"{dtype}[{n},{n}]")
    yield "product", lambda x, y: x @ y, (x, x)
    yield "transpose", lambda x: x.T + 1, (x,)


PROGRAMS = {
    **{f"kind {name}": program for name, program in KINDS.items()},
    **{
        f"{name} {dtype} {n}": (f, arguments)
        for dtype in ("f32", "f16")
        for n in COLUMNS
        for name, f, arguments in _rows(dtype, n)
    },
    **{
        f"{name} {dtype} {n}": (f, arguments)
        for dtype in ("f32", "f16", "bf16", "f64")
        for n in (1000, 1024)
        for name, f, arguments in _matrices(dtype, n)
    },
}
"""The eleven kinds, and rows and matrices of known sizes."""


def compiled(name, processor):
    """A program for a processor."""
    f, arguments = PROGRAMS[name]
    return dlvm.function(f, target=f"cuda:{processor}").compile(*arguments)


@dataclass(frozen=True)
class Assembled:
    """What ``ptxas -v`` says of each kernel: how many registers, and bytes of memory.

    Functions that a kernel calls have bytes that are ``spilt`` and a ``frame`` of their own.
    """

    registers: list[int]
    spilt: list[int]
    frame: list[int]
    shared: list[int]


def assembled(text, folder):
    """What an assembler makes of PTX, for the processor that it names; skips where none is."""
    if shutil.which("ptxas") is None:
        pytest.skip("ptxas is not installed: the PTX was made but not assembled")
    (folder / "k.ptx").write_text(text)
    processor = re.search(r"^\.target (\w+)", text, re.MULTILINE)[1]
    command = ["ptxas", "-v", f"-arch={processor}", "k.ptx", "-o", "k.cubin"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said

    def numbers(pattern):
        return [int(n) for n in re.findall(pattern, said)]

    memory = [re.search(r"(\d+) bytes smem", line) for line in said.splitlines() if "Used" in line]
    found = Assembled(
        numbers(r"Used (\d+) registers"),
        numbers(r"(\d+) bytes spill"),
        numbers(r"(\d+) bytes stack frame"),
        [int(found[1]) if found else 0 for found in memory],
    )
    assert found.registers and len(found.spilt) >= 2 * len(found.registers)
    return found


def barriers(text):
    """How often a block waits for its warps, as it stands in PTX."""
    return len(re.findall(r"\bbar(?:rier)?\.(?:cta\.)?sync", text))


def widths(text, access):
    """The bytes that each ``ld`` or ``st`` of global memory touches, in order."""
    found = re.findall(rf"\b{access}\.global(?:\.nc)?(?:\.v(\d))?\.[bfsu](\d+)\s", text)
    return [int(many or 1) * int(bits) // 8 for many, bits in found]


def guards(loops):
    """Accesses of buffers, in the text of loops, that are made on a condition only."""
    return re.findall(r"^.*(?:load|store) %b\d+\[.*\].* where .*$", loops, re.MULTILINE)


def main(words):
    """Prints what is found, a line for each program and processor."""
    with tempfile.TemporaryDirectory() as folder:
        for name in (n for n in PROGRAMS if all(word in n for word in words)):
            for processor in PROCESSORS:
                made = compiled(name, processor)
                text, loads = made.text("ptx"), f"{len(guards(made.text('loops')))} guarded"
                read, write = (sorted(set(widths(text, way))) for way in ("ld", "st"))
                told = assembled(text, Path(folder))
                print(f"{name}, {processor}: {told}, {barriers(text)} barriers,", end=" ")
                print(f"loads of {read} bytes, stores of {write}, {loads}")


if __name__ == "__main__":
    main(sys.argv[1:])
