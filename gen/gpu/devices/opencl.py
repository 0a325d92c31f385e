"""OpenCL as the way to a device, by pyopencl: kernels are compiled from their text by the driver.

The package is imported when a program for OpenCL first runs. OpenCL gives memory no address; here a
buffer has numbers as its addresses that no other one has, and a kernel gets a buffer and an offset.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.gen.printed.dialect import spelt
from dlvm.ir import Array

from .numbered import NumberedDevice

INSTALL = "pip install 'dlvm-compiler[opencl]'"
SOFTWARE = "install a driver, such as PoCL, which runs on the CPU: apt-get install pocl-opencl-icd"
OPENCL = 4
"""A device of OpenCL, to DLPack."""
EXACT = "-cl-fp32-correctly-rounded-divide-sqrt"


class OpenCL(NumberedDevice):
    """A device of OpenCL, of all that all drivers have in their order; one queue."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.cl = _pyopencl()
        self.device = _device(self.cl, number)
        self.context = self.cl.Context([self.device])
        self.queue = self.cl.CommandQueue(self.context)
        self.name = str(self.device.name)
        self.place: tuple[int, int] = (OPENCL, number)
        rounds = (
            self.device.single_fp_config & self.cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT
        )
        self.options = ["-w", *([EXACT] if rounds else [])]
        self.doubles = bool(self.device.double_fp_config)
        self._lock = threading.Lock()

    def allocate(self, count: int) -> int:
        """A buffer of its own."""
        size = max(1, count)
        try:
            buffer = self.cl.Buffer(self.context, self.cl.mem_flags.READ_WRITE, size)
        except self.cl.MemoryError:
            raise MemoryError(f"{self.name} has no {count:,} bytes left") from None
        return self.memory.add(buffer, size)

    def write(self, address: int, array: Array) -> None:
        """A copy to the device."""
        if array.nbytes:
            buffer, offset = self.memory.at(address)
            self.cl.enqueue_copy(self.queue, buffer, array, dst_offset=offset)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if array.nbytes:
            buffer, offset = self.memory.at(address)
            self.cl.enqueue_copy(self.queue, array, buffer, src_offset=offset)

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        if count:
            (to, far), (of, near) = self.memory.at(target), self.memory.at(source)
            given = {"byte_count": count, "src_offset": near, "dst_offset": far}
            self.cl.enqueue_copy(self.queue, to, of, **given)

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        name, lanes = spelt(ready.kernel.loops.name), ready.kernel.lanes
        if not ready.blocks:
            return
        given: list[Any] = []
        for address in at:
            given += self._given(address)
        given += [np.uint64(size & 0xFFFFFFFFFFFFFFFF) for size in ready.sizes]
        with self._lock:  # the arguments of a kernel are its state
            kernel = self._kernel(code, name)
            kernel.set_args(*given, *self._given(status))
            groups = (ready.blocks * lanes,), (lanes,)
            self.cl.enqueue_nd_range_kernel(self.queue, kernel, *groups)

    def _given(self, address: int) -> tuple[Any, Any]:
        buffer, offset = self.memory.at(address)
        return buffer, np.uint64(offset)

    def _kernel(self, code: DeviceCode, name: str) -> Any:
        kernels = code.loaded.get(self)
        if kernels is None:
            kernels = code.loaded[self] = self._built(code.text)
        return kernels[name]

    def _built(self, text: str) -> dict[str, Any]:
        if "double " in text and not self.doubles:
            raise UserError(
                f"the program computes in f64, which {self.name} does not compute",
                remedy="give arrays of f32, or leave the target out",
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # drivers say something even where nothing is wrong
            program = self.cl.Program(self.context, text).build(options=self.options)
            return {k.function_name: k for k in program.all_kernels()}

    def wait(self) -> None:
        """Returns once all that was asked has ended."""
        self.queue.finish()

    def mark(self) -> Any:
        """A point in the order of launches."""
        return self.cl.enqueue_marker(self.queue)

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points."""
        end.wait()
        return 1e-6 * (end.profile.end - start.profile.end)


def _pyopencl() -> Any:
    """The package, or an error that says how it is installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return import_module("pyopencl")
    except ImportError as error:
        raise UserError(
            f"target='opencl' needs the package pyopencl, which cannot be imported: {error}",
            remedy=INSTALL,
        ) from None


def _device(cl: Any, number: int) -> Any:
    """The device of a number, or an error if there is none."""
    try:
        found = [d for platform in cl.get_platforms() for d in platform.get_devices()]
    except cl.LogicError:  # no driver at all
        found = []
    if number >= len(found):
        there = ", ".join(f"{i}: {d.name}" for i, d in enumerate(found)) or "no device"
        remedy = f"write target='opencl:{len(found) - 1}'" if found else SOFTWARE
        raise UserError(f"expected device {number} of OpenCL, found {there}", remedy=remedy)
    return found[number]
