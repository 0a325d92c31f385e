"""Stands in for libcuda: memory of the host, launches in the emulator, and a record of calls.

Copies from and to pinned memory happen as late as they may: when an event after them is waited for,
or before the next call that is no such copy.

Its functions take what ctypes would hand to the library, and read the parameters of a kernel
through the pointers that a launch is given. Which kernels a text of PTX holds it is told before.
"""

import ctypes
import itertools
import re
import threading
import time
from collections import deque

import numpy as np

from dlvm.gen.gpu.device import Memory
from dlvm.gen.gpu.emulator.machine import emulated

NAMES = {
    1: b"CUDA_ERROR_INVALID_VALUE",
    2: b"CUDA_ERROR_OUT_OF_MEMORY",
    101: b"CUDA_ERROR_INVALID_DEVICE",
    218: b"CUDA_ERROR_INVALID_PTX",
    500: b"CUDA_ERROR_NOT_FOUND",
    700: b"CUDA_ERROR_ILLEGAL_ADDRESS",
}
CONTEXT = 77
WITHOUT_CONTEXT = {
    *("cuInit", "cuDeviceGet", "cuDeviceGetName", "cuDeviceGetAttribute"),
    *("cuDevicePrimaryCtxRetain", "cuGetErrorName", "cuEventDestroy_v2", "cuDriverGetVersion"),
    "cuGraphExecDestroy",
}
"""Functions that a thread calls whatever its context is."""
HANDLES = 1 << 40
"""Handles need more than 32 bits, as they do in a process."""
STAGED = {
    *("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord", "cuEventSynchronize"),
    "cuEventDestroy_v2",
}
"""Functions that leave copies of pinned memory waiting."""
ENTRY = re.compile(r"\.visible \.entry (\w+)\((.*?)\)", re.S)


class Memories:
    """Memory in place of a GPU's, which is found by any address inside."""

    def __init__(self):
        self.held = {}

    def take(self, count):
        array = np.full(count + 256, 0xA5, np.uint8)
        address = array.ctypes.data + -array.ctypes.data % 256
        self.held[address] = (array, count)
        return address

    def left(self, address):
        """The bytes from an address to the end of its memory."""
        for start, (_, count) in self.held.items():
            if start <= address < start + count:
                return start + count - address
        raise AssertionError(f"{address:#x} is not memory of the device")


class Kernels:
    """The kernels of programs by name, which run in the emulator on 64-bit words."""

    def __init__(self, memory):
        self.memory, self.known = memory, {}

    def learn(self, compiled):
        """The kernels of a compiled function."""
        code = compiled.road.executable.code.code
        kernels = {k.loops.name: k for phases in code.kernels.values() for k in phases}
        self.known[code.ptx] = kernels

    def parameters(self, ptx, name):
        """How many parameters the PTX says that a kernel has."""
        return {n: text.count(".param") for n, text in ENTRY.findall(ptx)}[name]

    def launch(self, ptx, name, blocks, lanes, words):
        kernel = self.known[ptx][name]
        assert (kernel.lanes, len(words)) == (lanes, self.parameters(ptx, name))
        count = len(kernel.loops.buffers)
        buffers = [Memory(w, self.memory.left(w)) for w in words[:count]]
        sizes, status = words[count:-1], words[-1]
        self.memory.left(status)
        emulated(ptx, name).launch(blocks, lanes, buffers, sizes, status)


class StandIn:
    """The functions of the driver's library that dlvm calls."""

    capability = 9, 0

    def __init__(self, room=1 << 30, devices=1):
        self.calls, self.room, self.devices = [], room, devices
        self.memory = Memories()
        self.kernels = Kernels(self.memory)
        self.learn = self.kernels.learn
        self.modules, self.functions, self.events, self.faults = {}, {}, {}, {}
        self.graphs, self.captured, self.streams = {}, {}, {55}
        self.numbers = itertools.count(4000)
        self.thread = threading.local()
        self.pinned, self.late, self.owners = {}, deque(), {}

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        answer = getattr(type(self), f"_{name.removesuffix('_v2')}")

        def call(*arguments):
            if name != "cuCtxSetCurrent":
                self.calls.append(name)
                ours = range(CONTEXT, CONTEXT + self.devices)
                own = name in WITHOUT_CONTEXT or getattr(self.thread, "context", None) in ours
                assert own, f"{name} in another context"
            assert all(x < 1 << 31 for x in arguments if isinstance(x, int)), "ctypes cuts it off"
            if name not in STAGED | {"cuCtxSetCurrent"}:
                self.catch_up()
            if name in self.faults:
                return self.faults[name]
            return answer(self, *arguments) or 0

        return call

    def count(self, name):
        return self.calls.count(name)

    def _cuInit(self, flags):
        assert flags == 0

    def _cuDeviceGet(self, device, ordinal):
        if ordinal >= self.devices:
            return 101
        device._obj.value = ordinal

    def _cuDeviceGetName(self, name, size, device):
        assert len(name) == size
        name.value = b"NVIDIA Stand-In"

    def _cuDeviceGetAttribute(self, value, which, device):
        value._obj.value = dict(zip((75, 76), self.capability, strict=True)).get(which, 1)

    def _cuDriverGetVersion(self, version):
        version._obj.value = 13000

    def _cuDevicePrimaryCtxRetain(self, context, device):
        context._obj.value = CONTEXT + device.value

    def _cuCtxSetCurrent(self, context):
        self.thread.context = context.value

    def _cuMemAlloc(self, address, count):
        if sum(n for _, n in self.memory.held.values()) + count.value > self.room:
            return 2
        address._obj.value = self.memory.take(count.value)
        self.owners[address._obj.value] = self.thread.context - CONTEXT

    def _cuPointerGetAttribute(self, value, which, address):
        assert which == 9
        for start, (_, count) in self.memory.held.items():
            if start <= address.value < start + count:
                value._obj.value = self.owners[start]
                return 0
        return 1

    def _cuMemFree(self, address):
        del self.memory.held[address.value]

    def _move(self, target, source, count, inside):
        for address in inside:
            assert self.memory.left(address.value) >= count.value
        ctypes.memmove(target.value, source.value, count.value)

    def _cuMemcpyHtoD(self, target, source, count):
        self._move(target, source, count, (target,))

    def _cuMemcpyDtoH(self, target, source, count):
        self._move(target, source, count, (source,))

    def _cuMemcpyDtoD(self, target, source, count):
        self._move(target, source, count, (target, source))

    def _on(self, stream):
        assert stream.value in self.streams

    def _asked(self, work, stream):
        """Work for the device: now, or whenever the graph runs that the stream captures."""
        if stream.value in self.captured:
            self.captured[stream.value].append(work)
        else:
            work()

    def _cuMemHostAlloc(self, address, count, flags):
        assert flags == 0
        array = np.full(count.value, 0x5A, np.uint8)
        address._obj.value = array.ctypes.data
        self.pinned[array.ctypes.data] = array

    def _staged(self, host, count, stream, work):
        """A copy: later where the host's side is pinned."""
        if any(a <= host.value < a + x.nbytes for a, x in self.pinned.items()):
            assert stream.value in {None, *self.streams}
            assert any(host.value + count.value <= a + x.nbytes for a, x in self.pinned.items())
            self.late.append((None, work))
        else:
            self._on(stream)
            self.catch_up()
            work()

    def catch_up(self, event=None):
        """Does what waits, up to the last mark of an event."""
        while self.late if event is None else any(e == event for e, _ in self.late):
            self.late.popleft()[1]()

    def _cuMemcpyHtoDAsync(self, target, source, count, stream):
        self._staged(source, count, stream, lambda: self._cuMemcpyHtoD(target, source, count))

    def _cuMemcpyDtoHAsync(self, target, source, count, stream):
        self._staged(target, count, stream, lambda: self._cuMemcpyDtoH(target, source, count))

    def _cuMemcpyDtoDAsync(self, target, source, count, stream):
        self._on(stream)
        self._asked(lambda: self._cuMemcpyDtoD(target, source, count), stream)

    def _cuModuleLoadDataEx(self, module, text, count, options, values):
        assert (count, list(options)) == (2, [5, 6])
        ptx = text.value.decode()
        if ptx not in self.kernels.known:
            said = b"ptxas fatal : Unresolved"
            ctypes.memmove(values[0], said, min(len(said), values[1]))
            return 218
        module._obj.value = HANDLES + 1000 + len(self.modules)
        self.modules[module._obj.value] = ptx

    def _cuModuleGetFunction(self, function, module, name):
        ptx = self.modules[module.value]
        if name.decode() not in self.kernels.known[ptx]:
            return 500
        function._obj.value = HANDLES + 2000 + len(self.functions)
        self.functions[function._obj.value] = (ptx, name.decode())

    def _cuLaunchKernel(self, function, bx, by, bz, tx, ty, tz, shared, stream, places, extra):
        assert (by, bz, ty, tz, shared, extra) == (1, 1, 1, 1, 0, None)
        ptx, name = self.functions[function.value]
        count = self.kernels.parameters(ptx, name)
        words = [ctypes.c_int64.from_address(places[i]).value for i in range(count)]
        self._asked(lambda: self.kernels.launch(ptx, name, bx, tx, words), stream)

    def _cuStreamSynchronize(self, stream):
        assert stream.value not in self.captured, "a stream that is captured is not waited for"

    def _cuStreamCreate(self, stream, flags):
        stream._obj.value = HANDLES + next(self.numbers)
        self.streams.add(stream._obj.value)

    def _cuStreamDestroy(self, stream):
        self.streams.remove(stream.value)

    def _cuStreamBeginCapture(self, stream, mode):
        self._on(stream)
        self.captured[stream.value] = []

    def _cuStreamEndCapture(self, stream, graph):
        graph._obj.value = HANDLES + next(self.numbers)
        self.graphs[graph._obj.value] = self.captured.pop(stream.value)

    def _cuGraphInstantiateWithFlags(self, ready, graph, flags):
        assert flags.value == 0
        ready._obj.value = HANDLES + next(self.numbers)
        self.graphs[ready._obj.value] = self.graphs[graph.value]

    def _cuGraphDestroy(self, graph):
        del self.graphs[graph.value]

    _cuGraphExecDestroy = _cuGraphDestroy

    def _cuGraphLaunch(self, ready, stream):
        assert stream.value in {None, *self.streams}
        for work in self.graphs[ready.value]:
            work()

    def _cuEventCreate(self, event, flags):
        event._obj.value = HANDLES + 3000 + len(self.events)
        self.events[event._obj.value] = None

    def _cuEventRecord(self, event, stream):
        self.events[event.value] = time.perf_counter()
        if self.late:
            self.late.append((event.value, lambda: None))

    def _cuEventSynchronize(self, event):
        assert event.value in self.events
        self.catch_up(event.value)

    def _cuEventElapsedTime(self, found, start, end):
        found._obj.value = 1e3 * (self.events[end.value] - self.events[start.value])

    def _cuEventDestroy(self, event):
        del self.events[event.value]

    def _cuGetErrorName(self, code, name):
        name._obj.value = NAMES[code]
