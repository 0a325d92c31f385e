"""Processors by name, for code that runs elsewhere: one record each.

Objects for them call nothing of an operating system, so the same object links into a program, a
library, a page or a firmware. Another processor is one more record: ``register``.
"""

from __future__ import annotations

from dataclasses import replace

from dlvm.base.errors import UserError

from .target import Target

V2 = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
V3 = f"{V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe"
V4 = f"{V3},+avx512f,+avx512vl,+avx512dq,+avx512bw,+avx512cd"


def _alone(triple: str, cpu: str, features: str, bits: int, registers: int) -> Target:
    return Target(triple, cpu, features, bits, registers, threads=1, os="none")


def _small(triple: str, cpu: str, features: str, bits: int, registers: int) -> Target:
    return replace(_alone(triple, cpu, features, bits, registers), word=32)


X86, RISCV = "x86_64-unknown-linux-gnu", "riscv64-unknown-linux-gnu"
ARM = "thumbv7em-unknown-none-gnueabihf"
WASM = "wasm32-unknown-unknown"
SCALAR = "+m,+a,+f,+d,+c"

TARGETS: dict[str, Target] = {
    "x86-64-v2": replace(_alone(X86, "x86-64-v2", V2, 128, 16), fma=False),
    "x86-64-v3": _alone(X86, "x86-64-v3", V3, 256, 16),
    "x86-64-v4": _alone(X86, "x86-64-v4", V4, 512, 32),
    "aarch64-linux-gnu": _alone("aarch64-unknown-linux-gnu", "cortex-a72", "+neon", 128, 32),
    "riscv64-linux-gnu": _alone(RISCV, "generic-rv64", SCALAR, 64, 32),
    "riscv64-linux-gnu+v": _alone(RISCV, "generic-rv64", f"{SCALAR},+v,+zvl128b", 128, 32),
    "wasm32": replace(_small(WASM, "generic", "+simd128,+bulk-memory", 128, 16), fma=False),
    "thumbv7em-none-eabihf": replace(_small(ARM, "cortex-m4", "", 32, 32), doubles=False),
    "thumbv7em-none-eabihf+m7": _small(ARM, "cortex-m7", "", 32, 32),
}
"""What ``target=`` names; vectors of RISC-V and the Cortex-M7 are written after a +."""


PRINTED = {"opencl": "opencl", "webgpu": "wgsl", "opengl": "glsl", "metal": "metal"}
"""Targets whose kernels are printed, each with the stage that is their text; others are added by
``gen/printed/languages.py``, as are the languages of these."""


def register(name: str, target: Target) -> None:
    """Add a processor; one that is there already stays as it is."""
    if name in TARGETS and TARGETS[name] != target:
        raise UserError(
            f"target {name!r} is {TARGETS[name]}", remedy="register it under another name"
        )
    TARGETS[name] = target


def is_gpu(name: str) -> bool:
    """Whether a target is a GPU, such as ``cuda:1``, ``cuda:sm_90a``, ``opencl`` or ``webgpu``."""
    return name.partition(":")[0] in ("cuda", *PRINTED)


def text_of(name: str) -> str:
    """The stage that is what the driver of a GPU gets."""
    return PRINTED.get(name.partition(":")[0], "ptx")


def _gpu(name: str) -> Target:
    """What ``cuda``, ``cuda:1``, ``cuda:sm_90a`` and ``cuda:1:sm_90a`` name."""
    words = name.split(":")[1:]
    device = int(words.pop(0)) if words and words[0].isdecimal() else None
    if len(words) > 1:
        raise UserError(
            f"target={name!r}: expected cuda with the number of a GPU, a processor, or both",
            remedy="write target='cuda:1:sm_90'",
        )
    return Target.cuda(*words, device=device)


def _printed(name: str) -> Target:
    """What ``opencl`` and ``opencl:1`` name."""
    dialect, _, number = name.partition(":")
    if number and not number.isdecimal():
        raise UserError(
            f"target={name!r}: expected {dialect}, or {dialect} with the number of a device",
            remedy=f"write target='{dialect}:0'",
        )
    return Target.printed(dialect, int(number) if number else None)


def named(name: str) -> Target:
    """A processor of the table, or the one that this process runs on."""
    if name == "host":
        return Target.host()
    if is_gpu(name):
        return _printed(name) if name.partition(":")[0] in PRINTED else _gpu(name)
    if name not in TARGETS:
        names = ", ".join(map(repr, ("host", "cuda", "cuda:sm_90a", *PRINTED, *TARGETS)))
        raise UserError(
            f"target={name!r}: expected one of {names}",
            remedy='write target="host"',
        )
    return TARGETS[name]
