"""NVIDIA's driver through ctypes: a device on which programs run, with no package but the driver.

The context is the primary one of the device, which PyTorch, CuPy and pycuda use as well. Kernels
are launched in order on the default stream. An error of the driver names the call and, of a launch,
the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

from dlvm.base.errors import UserError
from dlvm.ir import Array
from dlvm.target import Target

from .device import DeviceCode, KernelCode, Memory

LIBRARY = "libcuda.so.1"
LOG = 8192
LOG_BUFFER, LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and its MINOR."""


class DriverError(Exception):
    """A call of the driver that failed."""


class Driver:
    """The first device of this process, by the functions of the library."""

    def __init__(self, library: Any, ordinal: int = 0) -> None:
        self.library = library
        self._call("cuInit", 0)
        handle, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(handle), ordinal)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), handle)
        self._call("cuCtxSetCurrent", context)
        self.handle = handle

    @property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the device, such as (9, 0)."""
        found = ctypes.c_int(), ctypes.c_int()
        for value, which in zip(found, (MAJOR, MINOR), strict=True):
            self._call("cuDeviceGetAttribute", ctypes.byref(value), which, self.handle)
        return found[0].value, found[1].value

    def allocate(self, count: int) -> int:
        """Memory of the device, aligned to 256 bytes at least."""
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def free(self, address: int) -> None:
        """Gives memory back, once what was launched before has ended."""
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, array: Array) -> None:
        """A copy to the device."""
        if array.nbytes:
            source = ctypes.c_void_p(array.ctypes.data)
            self._call(
                "cuMemcpyHtoD_v2", ctypes.c_uint64(address), source, ctypes.c_size_t(array.nbytes)
            )

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if array.nbytes:
            target = ctypes.c_void_p(array.ctypes.data)
            self._call(
                "cuMemcpyDtoH_v2", target, ctypes.c_uint64(address), ctypes.c_size_t(array.nbytes)
            )

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        if count:
            places = ctypes.c_uint64(target), ctypes.c_uint64(source)
            self._call("cuMemcpyDtoD_v2", *places, ctypes.c_size_t(count))

    def launch(
        self,
        code: DeviceCode,
        kernel: KernelCode,
        blocks: int,
        buffers: Sequence[Memory],
        sizes: Sequence[int],
        status: int,
    ) -> None:
        """Runs a kernel after all that was asked before."""
        name = kernel.loops.name
        function = self._function(code, name)
        words = [*(b.address for b in buffers), *sizes, status]
        held = [ctypes.c_uint64(w & (2**64 - 1)) for w in words]
        places = (ctypes.c_void_p * len(held))(*(ctypes.addressof(h) for h in held))
        grid = (blocks, 1, 1, kernel.lanes, 1, 1)
        self._call("cuLaunchKernel", function, *grid, 0, None, places, None, about=f"@{name}")

    def wait(self) -> None:
        """Returns once all launches have ended."""
        self._call("cuCtxSynchronize")

    def _function(self, code: DeviceCode, name: str) -> ctypes.c_void_p:
        """The handle of a kernel; the driver compiles the module on first use."""
        known = code.loaded.setdefault(self, {})
        if "" not in known:
            known[""] = self._module(code.ptx)
        if name not in known:
            known[name] = ctypes.c_void_p()
            self._call("cuModuleGetFunction", ctypes.byref(known[name]), known[""], name.encode())
        return known[name]

    def _module(self, ptx: str) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(LOG)
        options = (ctypes.c_int * 2)(LOG_BUFFER, LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG)
        text = ctypes.c_char_p(ptx.encode())
        arguments = ctypes.byref(module), text, 2, options, values
        try:
            self._call("cuModuleLoadDataEx", *arguments)
        except DriverError as error:
            raise DriverError(f"{error}\n{log.value.decode(errors='replace')}") from None
        return module

    def _call(self, name: str, *arguments: Any, about: str = "") -> None:
        code = int(getattr(self.library, name)(*arguments))
        if code:
            said = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(said))
            error = (said.value or b"").decode() or f"error {code}"
            raise DriverError(f"{name}{f' of {about}' if about else ''}: {error}")


@cache
def library() -> Any:
    """The driver's library; an error that says what is missing."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise UserError(
            f"a program for a GPU needs NVIDIA's driver, found none ({error})",
            remedy="run it on a machine with a GPU; the stage ptx shows its code on any other",
        ) from None


@cache
def _first() -> Driver:
    return Driver(library())


def driver(target: Target) -> Driver:
    """The device of this process, which must run code for the target."""
    try:
        found = _first()
    except DriverError as error:
        raise UserError(
            f"NVIDIA's driver found no GPU ({error})",
            remedy="run it on a machine with a GPU; the stage ptx shows its code on any other",
        ) from None
    major, minor = found.capability
    wanted = int(target.cpu.removeprefix("sm_").rstrip("af"))
    if wanted > 10 * major + minor or (target.cpu.endswith("a") and wanted != 10 * major + minor):
        raise UserError(
            f"compiled for {target.cpu}, found a GPU of sm_{major}{minor}",
            remedy="name the GPU that was found as the target",
        )
    return found


def available() -> bool:
    """Whether there is a driver here."""
    try:
        return library() is not None
    except UserError:
        return False
