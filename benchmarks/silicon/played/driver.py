"""NVIDIA's driver through ctypes, as far as a recording needs it.

``gen/gpu/devices/driver.py`` does more of this and needs dlvm, which the machine that plays does
not have.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

LOG = 8192
LOG_BUFFER, LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""
NON_BLOCKING = 1
"""CU_STREAM_NON_BLOCKING: the default stream does not wait for it."""
RELAXED = 2
"""CU_STREAM_CAPTURE_MODE_RELAXED."""
ATTRIBUTES = {
    "major": 75,
    "minor": 76,
    "processors": 16,
    "clock_khz": 13,
    "memory_clock_khz": 36,
    "l2_bytes": 38,
    "shared_bytes": 97,
}
LOST = ("ILLEGAL", "MISALIGNED", "LAUNCH_FAILED", "LAUNCH_TIMEOUT", "ASSERT", "INVALID_PC")
"""Words of errors after which a process can do nothing more on the device."""


class CudaError(Exception):
    """A call of the driver that failed, with what the driver calls it."""

    @property
    def lost(self) -> bool:
        """Whether every later call of this process fails as well."""
        return any(word in str(self) for word in LOST)


def library() -> Any:
    """The driver's library."""
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise CudaError(f"no driver of NVIDIA's: {error}") from None


class Gpu:
    """The first GPU, and a stream of its own to which everything goes."""

    def __init__(self, functions: Any) -> None:
        self.functions = functions
        self.call("cuInit", 0)
        self.handle, context, stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.handle), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(stream), NON_BLOCKING)
        self.stream = stream

    def call(self, name: str, *arguments: Any) -> None:
        """One call; an error with its name."""
        if code := int(getattr(self.functions, name)(*arguments)):
            said = ctypes.c_char_p()
            self.functions.cuGetErrorName(code, ctypes.byref(said))
            raise CudaError(f"{name}: {(said.value or b'').decode() or f'error {code}'}")

    def about(self) -> dict[str, Any]:
        """What the device is."""
        name, version = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, self.handle)
        self.call("cuDriverGetVersion", ctypes.byref(version))
        numbers: dict[str, int] = {}
        for word, which in ATTRIBUTES.items():
            value = ctypes.c_int()
            self.call("cuDeviceGetAttribute", ctypes.byref(value), which, self.handle)
            numbers[word] = value.value
        return {"name": name.value.decode(), "driver": version.value, **numbers}

    # -- memory ------------------------------------------------------------------------------------

    def allocate(self, count: int) -> int:
        """The address of so many bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(max(1, count)))
        return address.value

    def free(self, address: int) -> None:
        """Gives memory back."""
        self.call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, array: Any) -> None:
        """A copy of a contiguous array to the device, after all launches."""
        self.wait()
        if array.nbytes:
            source = ctypes.c_void_p(array.ctypes.data)
            target, count = ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes)
            self.call("cuMemcpyHtoD_v2", target, source, count)

    def read(self, address: int, array: Any) -> None:
        """A copy from the device into a contiguous array, after all launches."""
        self.wait()
        if array.nbytes:
            target = ctypes.c_void_p(array.ctypes.data)
            source, count = ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes)
            self.call("cuMemcpyDtoH_v2", target, source, count)

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        places = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self.call("cuMemcpyDtoDAsync_v2", *places, ctypes.c_size_t(count), self.stream)

    # -- code --------------------------------------------------------------------------------------

    def module(self, code: bytes) -> ctypes.c_void_p:
        """PTX, which the driver compiles, or machine code; what the driver says of a failure."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(LOG)
        options = (ctypes.c_int * 2)(LOG_BUFFER, LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG)
        text = ctypes.c_char_p(code)
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
        except CudaError as error:
            raise CudaError(f"{error}\n{log.value.decode(errors='replace')[:600]}") from None
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module."""
        found = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(found), module, name.encode())
        return found

    def launch(self, function: Any, blocks: int, lanes: int, places: Any) -> None:
        """A kernel, after all that was asked before."""
        grid = (blocks, 1, 1, lanes, 1, 1)
        self.call("cuLaunchKernel", function, *grid, 0, self.stream, places, None)

    def wait(self) -> None:
        """Returns once all launches have ended."""
        self.call("cuStreamSynchronize", self.stream)

    # -- time --------------------------------------------------------------------------------------

    def mark(self) -> ctypes.c_void_p:
        """A point in the order of launches, whose time the device takes."""
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), 0)
        self.call("cuEventRecord", event, self.stream)
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points, once the second has been reached."""
        found = ctypes.c_float()
        self.call("cuEventSynchronize", end)
        self.call("cuEventElapsedTime", ctypes.byref(found), start, end)
        return found.value

    def graph(self, ask: Callable[[], None]) -> Callable[[], None]:
        """What is asked of the device inside, as one launch."""
        captured, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuStreamBeginCapture_v2", self.stream, RELAXED)
        try:
            ask()
        finally:
            self.call("cuStreamEndCapture", self.stream, ctypes.byref(captured))
        no_flags = ctypes.c_uint64(0)
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(ready), captured, no_flags)
        return lambda: self.call("cuGraphLaunch", ready, self.stream)
