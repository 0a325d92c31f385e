"""The processor for which code is compiled, as a frozen record.

Schedules, emission and cost models read it; no other code asks which machine it runs on.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cache

from dlvm.base import system
from dlvm.base.errors import UserError

from .machine import Machine

# A PTX version that is too old for the GPU makes LLVM abort the process, and a version that LLVM
# does not know silently selects its default. So each GPU has a version of its own here.
PTX_VERSIONS = {
    "sm_70": 70,
    "sm_75": 70,
    "sm_80": 70,
    "sm_86": 71,
    "sm_89": 78,
    "sm_90": 80,
    "sm_90a": 80,
    "sm_100": 86,
    "sm_120": 87,
}


@dataclass(frozen=True, slots=True)
class Target:
    """A triple, a CPU with its features, and the sizes that schedules depend on.

    ``vector_bits`` and ``registers`` describe the vector registers, ``threads`` how many
    cores may be used, and ``adaptive`` whether a call may use fewer where that is faster.
    ``fma`` says whether the processor computes ``x*y + z`` with one rounding, and ``doubles``
    whether it computes f64, which else are functions of a library of C.
    ``measured`` is how fast the machine was found to be, where that was measured.
    ``os`` is "linux" where code runs in a process with threads, signals and an allocator, and
    "none" where it may call nothing; addresses have ``word`` bits. ``device`` is the number of the
    GPU that runs it, None for the first or the one that was chosen. Kernels are printed in a
    ``dialect`` where LLVM has no code for the processor. ``exchanges`` says whether lanes of a GPU
    read registers of one another.
    """

    triple: str
    cpu: str
    features: str
    vector_bits: int
    registers: int
    threads: int
    adaptive: bool = field(default=False, repr=False)
    fma: bool = True
    doubles: bool = True
    measured: Machine | None = None
    os: str = "linux"
    word: int = 64
    device: int | None = field(default=None, repr=False)
    dialect: str = field(default="", repr=False)
    exchanges: bool = field(default=True, repr=False)

    @property
    def machine(self) -> Machine:
        """How fast it is: as measured, or the built-in values of its processor."""
        return self.measured or Machine.of(self.cpu, self.vector_bits)

    @staticmethod
    def host() -> Target:
        """The machine that this process runs on."""
        return _host()

    @staticmethod
    def cuda(cpu: str = "sm_80", device: int | None = None) -> Target:
        """An NVIDIA GPU; compiling for it needs neither a device nor a driver."""
        if cpu not in PTX_VERSIONS:
            raise UserError(
                f"expected a GPU among {', '.join(PTX_VERSIONS)}, found {cpu!r}",
                remedy="name one of these, as in target='cuda:sm_90a'",
            )
        features = f"+ptx{PTX_VERSIONS[cpu]}"
        return Target("nvptx64-nvidia-cuda", cpu, features, 8, 255, threads=1, device=device)

    @staticmethod
    def printed(dialect: str, device: int | None = None) -> Target:
        """A GPU, or what stands in for one, whose driver compiles kernels from text."""
        triple = f"{dialect}-unknown-unknown"
        target = Target(triple, dialect, "", 8, 255, threads=1, device=device)
        return replace(target, dialect=dialect, exchanges=False)

    @property
    def capability(self) -> int:
        """The compute capability of an NVIDIA GPU, times ten; 0 of every other processor."""
        return int(self.cpu.removeprefix("sm_").rstrip("af")) if self.cpu in PTX_VERSIONS else 0

    def lanes(self, bytes_each: int) -> int:
        """The number of elements of this size that one vector register holds."""
        return max(1, self.vector_bits // (8 * bytes_each))

    def __str__(self) -> str:
        return f"{self.cpu} ({self.triple}, {self.vector_bits}-bit vectors)"


@cache
def _host() -> Target:
    from llvmlite import binding

    enabled = _features()
    features = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(enabled.items()))
    triple = _named_once(binding.get_process_triple())
    bits, registers = _vectors(triple, enabled)
    return Target(
        triple=triple,
        cpu=binding.get_host_cpu_name(),
        features=features,
        vector_bits=bits,
        registers=registers,
        threads=cores() if system.has(system.THREADS) else 1,
        fma=_has_fma(triple, enabled),
    )


def _features() -> dict[str, bool]:
    """Which features of the processor are on; none are named where LLVM can't find out."""
    from llvmlite import binding

    try:
        return dict(binding.get_host_cpu_features())
    except RuntimeError:
        return {}


def _named_once(triple: str) -> str:
    """A triple under the one name that its processor has here: macOS calls AArch64 arm64."""
    return f"aarch64-{triple.removeprefix('arm64-')}" if triple.startswith("arm64-") else triple


def cores() -> int:
    """The number of cores that this process may use."""
    return len(allowed())


def allowed() -> list[int]:
    """Their numbers."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0)) or [0]
    return list(range(os.cpu_count() or 1))


def _has_fma(triple: str, enabled: dict[str, bool]) -> bool:
    """Whether a host fuses multiplication and addition; of 64-bit processors only x86 may not."""
    return not triple.startswith(("x86_64", "i686")) or enabled.get("fma", False)


def _vectors(triple: str, enabled: dict[str, bool]) -> tuple[int, int]:
    """The width in bits and the number of the vector registers of a host."""
    if not triple.startswith(("x86_64", "i686")):
        return 128, 32
    if enabled.get("avx512f") and enabled.get("avx512vl") and enabled.get("avx512dq"):
        return 512, 32
    return (256, 16) if enabled.get("avx2") else (128, 16)
