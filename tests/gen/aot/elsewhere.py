"""Running written functions under another processor: in qemu with a program in C, or in Node.

All programs become one executable, which reads their arguments from one file and writes statuses
and results to another. What a runner needs is looked for on PATH; ``missing`` names what is not
there.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .running import dtype

HERE = Path(__file__).parent
SECONDS = 300


@dataclass(frozen=True)
class Runner:
    """How the objects of one target are linked and run."""

    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    firmware: bool = False

    def missing(self) -> list[str]:
        """The tools that are not on PATH."""
        tools = [c[0] for c in (self.compiler, self.emulator) if c]
        return [t for t in tools if shutil.which(t) is None]


MCU = ("arm-none-eabi-gcc", "-mthumb", "-mfloat-abi=hard", "-O1")
BOARD = ("qemu-system-arm", "-nographic", "-monitor", "none", "-serial", "none")
HOSTING = ("-semihosting-config", "enable=on,target=native")
RUNNERS = {
    "x86-64-v2": Runner(("gcc", "-static"), ()),
    "x86-64-v3": Runner(("gcc", "-static"), ()),
    "x86-64-v4": Runner(("gcc", "-static"), ()),
    "aarch64-linux-gnu": Runner(("aarch64-linux-gnu-gcc", "-static"), ("qemu-aarch64",)),
    "riscv64-linux-gnu": Runner(("riscv64-linux-gnu-gcc", "-static"), ("qemu-riscv64",)),
    "riscv64-linux-gnu+v": Runner(
        ("riscv64-linux-gnu-gcc", "-static"), ("qemu-riscv64", "-cpu", "rv64,v=true,vlen=128")
    ),
    "thumbv7em-none-eabihf": Runner(
        (*MCU, "-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16"),
        (*BOARD, "-M", "mps2-an386", *HOSTING, "-kernel"),
        firmware=True,
    ),
    "thumbv7em-none-eabihf+m7": Runner(
        (*MCU, "-mcpu=cortex-m7", "-mfpu=fpv5-d16"),
        (*BOARD, "-M", "mps2-an500", *HOSTING, "-kernel"),
        firmware=True,
    ),
    "wasm32": Runner((), ("node",)),
}


def outcomes(programs, target, folder: Path):
    """For each program its status and results under a target."""
    runner, bundles = RUNNERS[target], [p.bundle(target) for p in programs]
    for bundle in bundles:
        bundle.write(folder)
    (folder / "in.bin").write_bytes(b"".join(map(_given, programs, bundles)))
    if target == "wasm32":
        names = json.dumps([b.description["name"] for b in bundles])
        _run(["node", str(HERE / "all.mjs"), names], folder)
    else:
        (folder / "main.c").write_text(main_c(bundles), "utf8")
        objects = [f"{b.description['name']}.o" for b in bundles]
        extra = ["-Wall", "-Wextra", "-Werror", "-std=c11", "main.c", *objects, "-o", "all.elf"]
        if runner.firmware:
            begin = [*runner.compiler, "-print-file-name=rdimon-crt0.o"]
            entry = subprocess.run(begin, capture_output=True, text=True, check=True).stdout
            start = [entry.strip(), str(HERE / "start.c"), "-T", str(HERE / "mps2.ld")]
            extra = [*start, "--specs=rdimon.specs", "-nostartfiles", *extra]
        _run([*runner.compiler, *extra, *(["-lm"] if runner.firmware else [])], folder)
        _run([*runner.emulator, "./all.elf"], folder)
    data = (folder / "out.bin").read_bytes()
    return list(_taken(bundles, data)), bundles


def _run(command, folder):
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])


def _given(program, bundle) -> bytes:
    """The bytes of the arguments of a program, and of its weights."""
    said, parts = bundle.description, []
    for argument, x in zip(said["arguments"], program.arrays, strict=True):
        parts.append(np.asarray(x, dtype(argument), order="C").tobytes())
    return b"".join(parts) + bundle.files[f"{said['name']}.weights.bin"]


def _taken(bundles, data):
    at = 0
    for bundle in bundles:
        status, at = int.from_bytes(data[at : at + 4], "little", signed=True), at + 4
        found = []
        for result in bundle.description["results"]:
            array = np.frombuffer(data[at : at + result["bytes"]], dtype(result))
            found.append(array.reshape(result["shape"]))
            at += result["bytes"]
        yield status, found
    assert at == len(data)


def main_c(bundles) -> str:
    """A program in C that runs every function once."""
    said = [b.description for b in bundles]
    heads = "\n".join(f'#include "{d["name"]}.h"' for d in said)
    parts = "\n".join(map(_function, said))
    calls = "\n".join(f"  run_{d['name']}(in, out);" for d in said)
    return f"""{heads}
#include <stdio.h>
#include <stdlib.h>
static void *take(FILE *in, size_t n) {{
  char *p = malloc(n + 1);
  if (!p || (in && fread(p, 1, n, in) != n)) exit(3);
  return p;
}}
{parts}
int main(void) {{
  FILE *in = fopen("in.bin", "rb"), *out = fopen("out.bin", "wb");
  if (!in || !out) return 2;
{calls}
  return fclose(out) != 0;
}}
"""


def _function(d) -> str:
    lines, given = [], []
    for a in d["arguments"]:
        name, kind = f"a_{a['name']}", a["c_type"]
        lines.append(f"  {kind} *{name} = take(in, {a['bytes']});")
        given.append(f"*{name}" if a["by"] == "value" else name)
    fresh = [r for r in d["results"] if "into" not in r]
    for r in fresh:
        lines.append(f"  {r['c_type']} *r_{r['name']} = take(0, {r['bytes']});")
        given.append(f"r_{r['name']}")
    lines.append(f"  void *weights = take(in, {d['weights']}), *scratch = take(0, {d['scratch']});")
    lines.append(f"  int32_t status = {d['name']}({', '.join([*given, 'weights', 'scratch'])});")
    lines.append("  fwrite(&status, 1, 4, out);")
    for r in d["results"]:
        place = f"a_{r['into']}" if "into" in r else f"r_{r['name']}"
        lines.append(f"  fwrite({place}, 1, {r['bytes']}, out);")
    names = [f"a_{a['name']}" for a in d["arguments"]] + [f"r_{r['name']}" for r in fresh]
    lines += [f"  free({n});" for n in (*names, "weights", "scratch")]
    return f"static void run_{d['name']}(FILE *in, FILE *out) {{\n" + "\n".join(lines) + "\n}"
