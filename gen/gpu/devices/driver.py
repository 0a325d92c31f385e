"""NVIDIA's driver through ctypes: a device on which programs run, with no package but the driver.

The context is the primary one of the device, which PyTorch, CuPy and pycuda use as well. Copies and
kernels go to one stream, in order. An error of the driver names the call and, where it may come
from a launch, the kernel.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any

from dlvm.base import system
from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.ir import Array
from dlvm.target import Target

from .pool import Pool
from .staging import Staging

LIBRARY = "libcuda.so.1"
LOG, NAME = 8192, 256
LOG_BUFFER, LOG_SIZE = 5, 6
"""CU_JIT_ERROR_LOG_BUFFER and CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES."""
MAJOR, MINOR = 75, 76
"""CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and its MINOR."""
DEVICE_ORDINAL = 9
"""CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL."""
OUT_OF_MEMORY = 2
"""CUDA_ERROR_OUT_OF_MEMORY."""
NON_BLOCKING, OF_THREAD = 1, 1
"""CU_STREAM_NON_BLOCKING and CU_STREAM_CAPTURE_MODE_THREAD_LOCAL."""
CAPTURED = "captured"
"""Under which a thread has the stream that it captures."""
CUDA = 2
"""The type of devices that DLPack calls kDLCUDA."""
REMEDIES = {
    "CUDA_ERROR_INVALID_PTX": "name the GPU that is there as the target",
    "CUDA_ERROR_NO_BINARY_FOR_GPU": "name the GPU that is there as the target",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": "update NVIDIA's driver",
    "CUDA_ERROR_NO_DEVICE": "run it on a machine with a GPU",
}
RESTART = "start a new process, as the driver repeats an error of a kernel, and report the program"


class DriverError(UserError):
    """A call of the driver that failed."""

    code = "driver"


class Driver:
    """One GPU of this process, by the functions of the library, on one of its streams."""

    shares = True

    def __init__(self, library: Any, ordinal: int = 0, stream: int = 0) -> None:
        self.library, self.stream = library, stream
        self._own = ctypes.c_void_p(stream or None)
        self._process = os.getpid()
        self._running: deque[str] = deque(maxlen=4)
        self._of_thread = threading.local()
        self._context: ctypes.c_void_p | None = None
        self._call("cuInit", 0)
        self.handle = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self.handle), ordinal)
        context = ctypes.c_void_p()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.handle)
        self._context = context
        name = ctypes.create_string_buffer(NAME)
        self._call("cuDeviceGetName", name, NAME, self.handle)
        self.name = name.value.decode(errors="replace")
        self.place: tuple[int, int] = (CUDA, ordinal)
        self._pool = Pool(self._take, self._give)
        self.allocate, self.free = self._pool.allocate, self._pool.free
        self._staging = Staging(self._call)

    @cached_property
    def capability(self) -> tuple[int, int]:
        """The compute capability of the device, such as (9, 0)."""
        found = ctypes.c_int(), ctypes.c_int()
        for value, which in zip(found, (MAJOR, MINOR), strict=True):
            self._call("cuDeviceGetAttribute", ctypes.byref(value), which, self.handle)
        return found[0].value, found[1].value

    # -- memory ------------------------------------------------------------------------------------

    def _take(self, count: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(count))
        return address.value

    def _give(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def write(self, address: int, array: Array) -> None:
        """A copy to the device, in the order of launches; the array may change afterwards."""
        if array.nbytes and not self._staging.write(address, array, self._on()):
            source = ctypes.c_void_p(array.ctypes.data)
            self._copy("cuMemcpyHtoD", ctypes.c_uint64(address), source, array.nbytes, waits=True)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if not array.nbytes:
            return
        if not self._staging.read(array, address, self._on()):
            target = ctypes.c_void_p(array.ctypes.data)
            self._copy("cuMemcpyDtoH", target, ctypes.c_uint64(address), array.nbytes, waits=True)
        self._running.clear()

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        if count:
            places = ctypes.c_uint64(target), ctypes.c_uint64(source)
            self._copy("cuMemcpyDtoD", *places, count)

    def _copy(self, name: str, target: Any, source: Any, count: int, waits: bool = False) -> None:
        """By the function for the default stream, or for another one."""
        size, stream = ctypes.c_size_t(count), self._on()
        if not stream.value:
            self._call(f"{name}_v2", target, source, size)
            return
        self._call(f"{name}Async_v2", target, source, size, stream)
        if waits:
            self._call("cuStreamSynchronize", self._on())

    # -- launches ----------------------------------------------------------------------------------

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        kernel = ready.kernel
        name = kernel.loops.name
        function = self._function(code, name)
        parameters = [*at, *ready.sizes, status]
        own: dict[Any, Any] = self._of_thread.__dict__
        words, places = own.get(len(parameters)) or self._parameters(len(parameters))
        words[:] = parameters
        stream = own.get(CAPTURED) or self._own
        grid = (ready.blocks, 1, 1, kernel.lanes, 1, 1)
        told = f"@{name}"
        self._call("cuLaunchKernel", function, *grid, 0, stream, places, None, about=told)
        if told not in self._running:
            self._running.append(told)

    def _parameters(self, count: int) -> tuple[Any, Any]:
        """Memory for the parameters of a launch, which reads it before it returns.

        Each thread has its own.
        """
        words = (ctypes.c_uint64 * count)()
        first = ctypes.addressof(words)
        places = (ctypes.c_void_p * count)(*(first + 8 * i for i in range(count)))
        own: dict[Any, Any] = self._of_thread.__dict__
        return own.setdefault(count, (words, places))

    def captured(self, ask: Callable[[], object], about: str) -> Callable[[], None]:
        """What launches all that ``ask`` asks for as one graph; nothing of it runs now.

        A stream of its own is captured, as the default one can't be; the graph runs where all else
        does.
        """
        side, ready = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuStreamCreate", ctypes.byref(side), NON_BLOCKING)
        try:
            graph = self._graph(side, ask)
        finally:
            self._call("cuStreamDestroy_v2", side)
        self._call("cuGraphInstantiateWithFlags", ctypes.byref(ready), graph, ctypes.c_uint64(0))
        self._call("cuGraphDestroy", graph)
        told = f"a graph of {about}"

        def launch() -> None:
            self._call("cuGraphLaunch", ready, self._on(), about=told)
            if told not in self._running:
                self._running.append(told)

        held = ctypes.c_void_p(ready.value)
        weakref.finalize(launch, self.library.cuGraphExecDestroy, held).atexit = False
        return launch

    def _graph(self, side: ctypes.c_void_p, ask: Callable[[], object]) -> ctypes.c_void_p:
        """What this thread asks for, which goes to a stream that captures it."""
        graph, own = ctypes.c_void_p(), self._of_thread.__dict__
        self._call("cuStreamBeginCapture_v2", side, OF_THREAD)
        own[CAPTURED] = side
        try:
            ask()
        finally:
            del own[CAPTURED]
            self._call("cuStreamEndCapture", side, ctypes.byref(graph))
        return graph

    def wait(self) -> None:
        """Returns once all launches have ended."""
        self._call("cuStreamSynchronize", self._on())
        self._running.clear()

    def follow(self, stream: int) -> None:
        """Returns once what others asked of one of their streams has ended."""
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def ordinal(self, address: int) -> int | None:
        """The number of the GPU whose memory this is, None for memory that CUDA does not know.

        Some machines let a GPU read such memory of the host.
        """
        found = ctypes.c_int(-1)
        try:
            told = ctypes.byref(found), DEVICE_ORDINAL, ctypes.c_uint64(address)
            self._call("cuPointerGetAttribute", *told)
        except DriverError as error:
            if "CUDA_ERROR_INVALID_VALUE" not in error.message:
                raise
        return found.value if found.value >= 0 else None

    def mark(self) -> Any:
        """A point in the order of launches, whose time the device takes."""
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), 0)
        held = ctypes.c_void_p(event.value)
        weakref.finalize(event, self.library.cuEventDestroy_v2, held).atexit = False
        self._call("cuEventRecord", event, self._on())
        return event

    def milliseconds(self, start: Any, end: Any) -> float:
        """The time between two points, once the second has been reached."""
        found = ctypes.c_float()
        self._call("cuEventSynchronize", end)
        self._call("cuEventElapsedTime", ctypes.byref(found), start, end)
        return found.value

    def _on(self) -> ctypes.c_void_p:
        """The stream to which everything goes, or the one that this thread captures."""
        return self._of_thread.__dict__.get(CAPTURED) or self._own

    # -- code --------------------------------------------------------------------------------------

    def _function(self, code: DeviceCode, name: str) -> ctypes.c_void_p:
        """The handle of a kernel; the driver compiles the module on first use."""
        known = code.loaded.get(self)
        if known is None:
            known = code.loaded.setdefault(self, {})
        elif name in known:
            return known[name]
        if "" not in known:
            known[""] = self._module(code.ptx)
        found = ctypes.c_void_p()
        told = ctypes.byref(found), known[""], name.encode()
        self._call("cuModuleGetFunction", *told, about=f"@{name}")
        return known.setdefault(name, found)

    def _module(self, ptx: str) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(LOG)
        options = (ctypes.c_int * 2)(LOG_BUFFER, LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), LOG)
        text = ctypes.c_char_p(ptx.encode())
        arguments = ctypes.byref(module), text, 2, options, values
        try:
            self._call("cuModuleLoadDataEx", *arguments)
        except DriverError as error:
            error.notes += tuple(log.value.decode(errors="replace").strip().splitlines()[:6])
            raise
        return module

    def _call(self, name: str, *arguments: Any, about: str = "") -> None:
        """One call, in the device's context: other libraries of the thread have theirs."""
        if os.getpid() != self._process:
            raise DriverError(
                "this process was forked from one that used the GPU, which it cannot use",
                remedy="start processes anew, which multiprocessing calls spawn",
            )
        if self._context:
            self.library.cuCtxSetCurrent(self._context)
        if code := getattr(self.library, name)(*arguments):
            if code == OUT_OF_MEMORY and name == "cuMemAlloc_v2":
                raise MemoryError(f"the GPU has no {arguments[1].value:,} bytes left")
            raise self._error(name, code, about)

    def _error(self, name: str, code: int, about: str) -> DriverError:
        said = ctypes.c_char_p()
        self.library.cuGetErrorName(code, ctypes.byref(said))
        error = (said.value or b"").decode() or f"error {code}"
        earlier = [k for k in self._running if k != about]
        about = f" of {about}" if about else ""
        after = f" after {', '.join(earlier)}" if earlier else ""
        return DriverError(f"{name}{about}{after}: {error}", remedy=REMEDIES.get(error, RESTART))


@cache
def library() -> Any:
    """The driver's library; an error that says what is missing."""
    system.require(system.GPUS, "a program for a GPU")
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise UserError(
            f"a program for a GPU needs NVIDIA's driver, found none ({error})",
            remedy="run it on a machine with a GPU; the stage ptx shows its code on any other",
        ) from None


@cache
def driver(stream: int, ordinal: int) -> Driver:
    """A GPU of this process by its number, on one of its streams."""
    try:
        return Driver(library(), ordinal, stream)
    except DriverError as error:
        if ordinal:
            raise UserError(
                f"NVIDIA's driver found no GPU {ordinal} ({error.message})",
                remedy="name a GPU that nvidia-smi lists",
            ) from None
        raise UserError(
            f"NVIDIA's driver found no GPU ({error.message})",
            remedy="run it on a machine with a GPU; the stage ptx shows its code on any other",
        ) from None


def check(target: Target, capability: tuple[int, int]) -> None:
    """An error unless a GPU of this capability runs code for the target."""
    major, minor = capability
    wanted = target.capability
    if wanted > 10 * major + minor or (target.cpu.endswith("a") and wanted != 10 * major + minor):
        raise UserError(
            f"compiled for {target.cpu}, found a GPU of sm_{major}{minor}",
            remedy="name the GPU that was found as the target",
        )
