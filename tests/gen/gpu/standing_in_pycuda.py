"""Stands in for the package pycuda: what dlvm uses of it, on the host and in the emulator."""

import ctypes
import struct
import sys
import time
import types

from .standing_in import Kernels, Memories


class Allocation:
    """As a PooledDeviceAllocation: memory that goes back to its pool with the object."""

    def __init__(self, pool, address, count):
        self.pool, self.address, self.count = pool, address, count

    def __int__(self):
        return self.address

    def __del__(self):
        self.pool.kept.setdefault(self.count, []).append(self.address)


class Stream:
    handle = 55

    def __init__(self, package):
        self.package = package

    def synchronize(self):
        self.package.record("stream.synchronize")


class Package:
    """The modules, what was called of them, and the errors that they are told to raise."""

    def __init__(self, room=1 << 30):
        self.calls, self.room, self.faults = [], room, {}
        self.memory = Memories()
        self.kernels = Kernels(self.memory)
        self.learn = self.kernels.learn
        error = type("Error", (Exception,), {})
        self.Error, self.LogicError = error, type("LogicError", (error,), {})
        self.MemoryError = type("MemoryError", (error,), {})
        self.CompileError = type("CompileError", (error,), {})
        self.stream = Stream(self)

    def record(self, name):
        self.calls.append(name)
        if name in self.faults:
            raise self.LogicError(self.faults[name])

    def install(self, monkeypatch):
        """The modules in the place of those that are not installed."""
        package = types.ModuleType("pycuda")
        package.driver, package.tools = self._driver(), types.ModuleType("pycuda.tools")
        package.autoprimaryctx = types.ModuleType("pycuda.autoprimaryctx")
        package.autoprimaryctx.context = object()
        package.tools.DeviceMemoryPool = lambda: Pool(self)
        for name in ("", ".driver", ".tools", ".autoprimaryctx"):
            module = package if not name else getattr(package, name[1:])
            monkeypatch.setitem(sys.modules, f"pycuda{name}", module)

    def _driver(self):
        m = types.ModuleType("pycuda.driver")
        m.Error, m.MemoryError = self.Error, self.MemoryError

        class Device:
            def __init__(self, number=0):
                self.number = number

            def __eq__(self, other):
                return self.number == other.number

            __hash__ = None

            def name(self):
                return "NVIDIA Stand-In"

            def compute_capability(self):
                return 9, 0

            @staticmethod
            def count():
                return 1

        class Context:
            get_device = staticmethod(Device)
            synchronize = staticmethod(lambda: self.record("synchronize"))

        class Event:
            def record(self, stream=None):
                self.time = time.perf_counter()

            def synchronize(self):
                assert self.time

            def time_till(self, other):
                return 1e3 * (other.time - self.time)

        m.Device, m.Context, m.Event = Device, Context, Event
        m.memcpy_htod = lambda to, array: self.move("memcpy_htod", to, array, array.nbytes)
        m.memcpy_dtoh = lambda array, at: self.move("memcpy_dtoh", array, at, array.nbytes)
        m.memcpy_dtod = lambda to, at, count: self.move("memcpy_dtod", to, at, count)
        m.memcpy_htod_async = lambda to, array, s: self.later(s, m.memcpy_htod, to, array)
        m.memcpy_dtoh_async = lambda array, at, s: self.later(s, m.memcpy_dtoh, array, at)
        m.module_from_buffer = lambda text: Loaded(self, text)
        return m

    def later(self, stream, f, *arguments):
        assert stream is self.stream
        f(*arguments)

    def move(self, name, target, source, count):
        self.record(name)
        target, source = (self._address(x, count) for x in (target, source))
        ctypes.memmove(target, source, count)

    def _address(self, x, count):
        if isinstance(x, int):
            assert self.memory.left(x) >= count
            return x
        assert memoryview(x).nbytes == count
        return x.ctypes.data


class Pool:
    def __init__(self, package):
        self.package, self.kept = package, {}

    def allocate(self, count):
        kept = self.kept.get(count)
        if kept:
            return Allocation(self, kept.pop(), count)
        self.package.record("new memory")
        memory = self.package.memory
        if sum(n for _, n in memory.held.values()) + count > self.package.room:
            raise self.package.MemoryError("cuMemAlloc failed: out of memory")
        return Allocation(self, memory.take(count), count)


class Loaded:
    """A module."""

    def __init__(self, package, text):
        package.record("module_from_buffer")
        self.package, self.ptx = package, text.decode()
        if self.ptx not in package.kernels.known:
            raise package.CompileError("cuModuleLoadDataEx failed: ptxas fatal")

    def get_function(self, name):
        self.package.record("get_function")
        return Function(self, name)


class Function:
    def __init__(self, module, name):
        self.module, self.name, self.format = module, name, ""

    def prepare(self, format_):
        self.format = format_
        return self

    def prepared_async_call(self, grid, block, stream, *arguments):
        package = self.module.package
        package.record("launch")
        assert (grid[1], block[1:]) == (1, (1, 1))
        packed = struct.pack(self.format, *arguments)
        words = list(struct.unpack(f"{len(self.format)}q", packed))
        package.kernels.launch(self.module.ptx, self.name, grid[0], block[0], words)
