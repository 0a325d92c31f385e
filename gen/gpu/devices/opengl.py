"""OpenGL as the way to a device, by the package moderngl: compute shaders, without a window.

The package is imported when a program for OpenGL first runs. A context belongs to one thread, so a
thread of the device's own does all work, and contexts of other libraries in the threads of callers
stay what they are. OpenGL gives memory no address; here a buffer has numbers as its addresses that
no other one has. A kernel gets each buffer from a multiple of 256 bytes on; and as words of
32 bits a zero, of which the driver does not know that it is one, indices of first elements, and
sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.gen.loops.status import WORDS
from dlvm.gen.printed.dialect import spelt
from dlvm.ir import Array

from .numbered import APART, WITHOUT, TimedByHost, bound, word_of

INSTALL = "pip install 'dlvm-compiler[opengl]'"
SOFTWARE = (
    "install a driver of OpenGL 4.3, such as Mesa's, which has one that runs on the CPU: "
    "apt-get install libegl1 libgl1-mesa-dri"
)
EXTENSION = 12
"""A device that DLPack has no number for."""
T = TypeVar("T")
BLOCKS = "GL_MAX_COMPUTE_SHADER_STORAGE_BLOCKS"
BYTES = "GL_MAX_SHADER_STORAGE_BLOCK_SIZE"
GROUPS = "GL_MAX_COMPUTE_WORK_GROUP_COUNT"


class OpenGL(TimedByHost):
    """A device of OpenGL, of those that EGL has in their order; one context."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.package = _moderngl()
        self._thread = ThreadPoolExecutor(1, "dlvm-opengl")
        self.context = self._do(_context, self.package, number)
        self.context.gc_mode = "context_gc"  # what is freed waits for this thread to call gc
        self.limits: dict[str, Any] = dict(self._do(lambda: self.context.info))
        self.name = str(self.limits["GL_RENDERER"])
        self.place: tuple[int, int] = (EXTENSION, number)

    def _do(self, work: Callable[..., T], *given: Any) -> T:
        """Does work in the thread that has the context, and returns what it gives."""
        return self._thread.submit(work, *given).result()

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, count: int) -> int:
        """A buffer of its own."""
        size = -(-max(1, count) // APART) * APART
        return self.memory.add(self._do(self._buffer, size), size)

    def _buffer(self, size: int) -> Any:
        self.context.gc()
        try:
            buffer = self.context.buffer(reserve=size)
        except self.package.Error:
            buffer = None
        if self.context.error != "GL_NO_ERROR" or buffer is None:
            raise MemoryError(f"{self.name} has no {size:,} bytes left")
        return buffer

    def write(self, address: int, array: Array) -> None:
        """A copy to the device."""
        if array.nbytes:
            buffer, offset = self.memory.at(address)
            data = np.ascontiguousarray(array).reshape(-1).view("u1")
            self._do(buffer.write, data, offset)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if array.nbytes:
            buffer, offset = self.memory.at(address)
            found = np.frombuffer(self._do(buffer.read, array.nbytes, offset), array.dtype)
            array[...] = found.reshape(array.shape)

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        if count:
            (to, far), (of, near) = self.memory.at(target), self.memory.at(source)
            self._do(self.context.copy_buffer, to, of, count, near, far)

    # -- launches ------------------------------------------------------------------------------

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        if ready.blocks:
            self._do(self._launch, code, ready, at, status)

    def _launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        self.context.gc()
        shader = self._shader(code, spelt(ready.kernel.loops.name), len(at))
        each = [b.dtype.bytes for b in ready.kernel.loops.buffers]
        given = enumerate(zip(at, ready.bytes, each, strict=True), 1)
        words = [0, *(self._bind(i, *x) for i, x in given)]
        words += [word_of(n, "opengl") for n in ready.sizes]
        words.append(self._bind(0, status, WORDS * 8, 8))
        told = self.context.buffer(np.array(words, "u4").tobytes())
        told.bind_to_uniform_block(0)
        shader.run(min(ready.blocks, self.limits[GROUPS][0]))  # blocks stride over the rest
        self.context.memory_barrier()

    def _bind(self, binding: int, address: int, count: int, each: int) -> int:
        """Makes a buffer reachable, and gives the index of its first element in what is."""
        buffer, offset = self.memory.at(address)
        if not count:  # nothing is read of it, and it may lie behind the last word
            offset = 0
        start, size = bound(offset, count, buffer.size)
        self.check_reach(size, (offset - start + count) // each, count, self.limits[BYTES])
        buffer.bind_to_storage_buffer(binding, offset=start, size=size)
        return (offset - start) // each

    def _shader(self, code: DeviceCode, name: str, buffers: int) -> Any:
        """A kernel of a program, compiled when it is first needed."""
        kept = code.loaded.setdefault(self, {})
        if name not in kept:
            kept[name] = self._compiled(code.text, name, buffers)
        return kept[name]

    def _compiled(self, text: str, name: str, buffers: int) -> Any:
        self.check_arrays(buffers, self.limits[BLOCKS])
        version, rest = text.split("\n", 1)
        try:
            return self.context.compute_shader(f"{version}\n#define {name}\n{rest}")
        except self.package.Error as error:
            raise UserError(
                f"{self.name} refuses a kernel: {str(error).strip()}",
                remedy=WITHOUT,
            ) from None

    # -- order ---------------------------------------------------------------------------------

    def wait(self) -> None:
        """Returns once all that was asked has ended."""
        self._do(self.context.finish)


def _moderngl() -> Any:
    """The package, or an error that says how it is installed."""
    try:
        return import_module("moderngl")
    except (ImportError, OSError) as error:
        raise UserError(
            f"target='opengl' needs the package moderngl, which cannot be imported: {error}",
            remedy=INSTALL,
        ) from None


def _context(package: Any, number: int) -> Any:
    """A context of a device, which needs no display where there is EGL, or an error."""
    chosen = {"backend": "egl", "device_index": number} if sys.platform == "linux" else {}
    try:
        if number and not chosen:
            raise ValueError(f"{sys.platform} offers one device")
        return package.create_context(standalone=True, require=430, **chosen)
    except Exception as error:  # the package raises nothing more special
        remedy = "write target='opengl:0'" if number else SOFTWARE
        found = f"expected device {number} of OpenGL 4.3, found none: {error}"
        raise UserError(found, remedy=remedy) from None
