"""What a program needs of a GPU: memory, copies, and launches in the order in which they are asked.

``devices.driver`` implements it for NVIDIA's driver, ``emulator.device`` on a CPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from dlvm.gen.llvm.binding import assembly
from dlvm.gen.loops.statements import LoopKernel
from dlvm.ir import Array, Dim
from dlvm.target import Target


@dataclass(frozen=True, slots=True)
class Memory:
    """A buffer of a kernel: its address, its bytes, and whether it holds something already."""

    address: int
    bytes: int
    written: bool = True


@dataclass(frozen=True)
class KernelCode:
    """One kernel: its loops, and how many lanes and blocks run it."""

    loops: LoopKernel
    lanes: int
    blocks: Dim


@dataclass(frozen=True, slots=True)
class Ready:
    """A launch of a kernel but for addresses: its blocks, the bytes of each buffer, and sizes.

    ``written`` says of each buffer whether it holds something already.
    """

    kernel: KernelCode
    blocks: int
    bytes: tuple[int, ...]
    written: tuple[bool, ...]
    sizes: tuple[int, ...]

    def memories(self, addresses: Sequence[int]) -> list[Memory]:
        """The buffers at these addresses."""
        return list(map(Memory, addresses, self.bytes, self.written))


@dataclass(frozen=True)
class DeviceCode:
    """The phases of each kernel of a program by its name, for one processor."""

    target: Target
    text: str
    """What the kernels are written in: LLVM, or the language of a target that is printed."""
    kernels: Mapping[str, tuple[KernelCode, ...]]
    loaded: dict[Any, Any] = field(default_factory=dict[Any, Any], compare=False)
    """What devices keep of it, each under itself."""

    @cached_property
    def ptx(self) -> str:
        """All kernels as one module of PTX."""
        return assembly(self.text, self.target)


class Device(Protocol):
    """A processor with memory of its own.

    ``place`` is its type and number in DLPack, ``stream`` the handle of the stream to which
    everything goes, 0 for the default one. ``shares`` says whether other libraries can read its
    memory by an address.
    """

    name: str
    place: tuple[int, int]
    stream: int
    shares: bool

    def allocate(self, count: int) -> int:
        """The address of so many bytes, which nobody else has."""
        ...

    def free(self, address: int) -> None:
        """Gives memory back."""
        ...

    def write(self, address: int, array: Array) -> None:
        """Copies a contiguous array of the host to the device."""
        ...

    def read(self, address: int, array: Array) -> None:
        """Copies from the device into a contiguous array of the host, after all launches."""
        ...

    def copy(self, target: int, source: int, count: int) -> None:
        """Copies bytes on the device."""
        ...

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        ...

    def wait(self) -> None:
        """Returns once all that was asked has ended."""
        ...

    def follow(self, stream: int) -> None:
        """Returns once what others asked of one of their streams has ended."""
        ...

    def ordinal(self, address: int) -> int | None:
        """The number of the GPU whose memory this is, None where nothing tells."""
        ...

    def mark(self) -> Any:
        """A point in the order of launches."""
        ...

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points, once the second has been reached."""
        ...
