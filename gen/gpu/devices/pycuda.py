"""pycuda as the way to the device: its context, pool of memory, modules, streams and events.

Context and memory are shared with what else a script does through pycuda. The package is imported
when a script asks for it; ``driver`` needs no package and does the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.ir import Array

from .driver import CUDA, RESTART, DriverError

INSTALL = "pip install 'dlvm-compiler[cuda]', which needs a C++ compiler and CUDA's headers"


class Pycuda:
    """The GPU of pycuda's primary context, on the default stream or a ``pycuda.driver.Stream``."""

    shares = True

    def __init__(self, stream: Any = None) -> None:
        self.driver, self.context = _pycuda()
        self.on = stream
        self.stream: int = 0 if stream is None else int(stream.handle)
        device = self.driver.Context.get_device()
        self.capability: tuple[int, int] = tuple(device.compute_capability())
        self.name = str(device.name())
        numbers = range(self.driver.Device.count())
        ordinal = next((i for i in numbers if self.driver.Device(i) == device), 0)
        self.place: tuple[int, int] = (CUDA, ordinal)
        self._pool: Any = import_module("pycuda.tools").DeviceMemoryPool()
        self._held: dict[int, Any] = {}
        self._thread = threading.get_ident()

    def allocate(self, count: int) -> int:
        """Memory of pycuda's pool."""
        try:
            found = self._call("allocate", self._pool.allocate, max(1, count))
        except self.driver.MemoryError:
            raise MemoryError(f"the GPU has no {count:,} bytes left") from None
        self._held[int(found)] = found
        return int(found)

    def free(self, address: int) -> None:
        """Gives memory back to the pool."""
        del self._held[address]

    def write(self, address: int, array: Array) -> None:
        """A copy to the device, in the order of launches; the array may change afterwards."""
        if array.nbytes:
            self._copy("memcpy_htod", address, _bytes(array), waits=True)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if array.nbytes:
            self._copy("memcpy_dtoh", _bytes(array), address, waits=True)

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        if count:
            self._copy("memcpy_dtod", target, source, count)

    def _copy(self, name: str, *arguments: Any, waits: bool = False) -> None:
        if self.on is None:
            self._call(name, getattr(self.driver, name), *arguments)
            return
        self._call(name, getattr(self.driver, f"{name}_async"), *arguments, self.on)
        if waits:
            self.wait()

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        kernel, sizes = ready.kernel, ready.sizes
        name, words = kernel.loops.name, [*at, *sizes, status]
        run = self._function(code, name, f"{'P' * len(at)}{'q' * len(sizes)}P")
        told = (ready.blocks, 1), (kernel.lanes, 1, 1), self.on
        self._call("the launch", run.prepared_async_call, *told, *words, about=f" of @{name}")

    def wait(self) -> None:
        """Returns once all launches have ended."""
        end = self.driver.Context.synchronize if self.on is None else self.on.synchronize
        self._call("synchronize", end)

    def follow(self, stream: int) -> None:
        """Returns once what others asked of their streams has ended."""
        self._call("synchronize", self.driver.Context.synchronize)

    def ordinal(self, address: int) -> int | None:
        """None: pycuda tells it only of arrays of its own, which are in its one context."""

    def mark(self) -> Any:
        """A point in the order of launches, whose time the device takes."""
        event = self.driver.Event()
        event.record(self.on)
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points, once the second has been reached."""
        end.synchronize()
        return float(start.time_till(end))

    def _function(self, code: DeviceCode, name: str, format_: str) -> Any:
        """A kernel, ready to be launched; the driver compiles the module on first use."""
        known = code.loaded.setdefault(self, {})
        if "" not in known:
            load = self.driver.module_from_buffer
            known[""] = self._call("module_from_buffer", load, code.ptx.encode())
        if name not in known:
            found = self._call("get_function", known[""].get_function, name, about=f" of @{name}")
            known[name] = found.prepare(format_)
        return known[name]

    def _call(self, name: str, f: Callable[..., Any], *arguments: Any, about: str = "") -> Any:
        """One call of pycuda, in the thread that has its context."""
        if threading.get_ident() != self._thread:
            raise UserError(
                "pycuda's context belongs to the thread that chose it, found a call of another",
                remedy="call it in that thread, or choose the driver",
            )
        try:
            return f(*arguments)
        except self.driver.MemoryError:
            raise
        except self.driver.Error as error:
            raise DriverError(f"{name}{about}: {error}", remedy=RESTART) from None


def _bytes(array: Array) -> Array:
    """The memory of a contiguous array; buffers of bf16 are unknown to Python."""
    return array.reshape(-1).view(np.uint8)


def _pycuda() -> tuple[Any, Any]:
    """The module ``pycuda.driver``, and the primary context of a device, which is current."""
    try:
        return import_module("pycuda.driver"), import_module("pycuda.autoprimaryctx").context
    except ImportError as error:
        missing = error.name is not None and error.name.partition(".")[0] == "pycuda"
        what = "the package pycuda, which is not installed" if missing else "NVIDIA's driver"
        raise UserError(
            f"programs for a GPU by pycuda need {what} ({error})",
            remedy=INSTALL if missing else "run it on a machine with a GPU",
        ) from None
    except Exception as error:  # its own kinds of errors come from the module that fails
        raise UserError(
            f"pycuda found no GPU ({error})", remedy="run it on a machine with a GPU"
        ) from None
