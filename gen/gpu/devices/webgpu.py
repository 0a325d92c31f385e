"""WebGPU as the way to a device, by the package wgpu: it compiles kernels from their text in WGSL.

The package is imported when a program for WebGPU first runs. Launches are recorded, and handed over
in groups: before the host reads or writes, and when there are enough of them. A kernel gets each
buffer from a multiple of 256 bytes on; and as words of 32 bits in a buffer of their own a zero, of
which the driver does not know that it is one, the indices of first elements, and sizes.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import DeviceCode, Ready
from dlvm.gen.loops.status import WORDS
from dlvm.gen.printed.dialect import spelt
from dlvm.ir import Array

from .numbered import APART, WITHOUT, WORD, TimedByHost, bound, word_of, words

INSTALL = "pip install 'dlvm-compiler[webgpu]'"
SOFTWARE = (
    "install a driver of Vulkan, such as Mesa's, which has one that runs on the CPU: "
    "apt-get install mesa-vulkan-drivers libvulkan1"
)
WEBGPU = 15
"""A device of WebGPU, to DLPack."""
MOST_AT_ONCE = 64
"""Launches that are recorded at most before they are handed over."""
MOST_GIVEN = 256
"""Bindings of a kernel that are kept for launches with the same arguments."""


@dataclass
class Pipeline:
    """A kernel that is compiled, and the bindings of its last launches."""

    compiled: Any
    layout: Any
    bound: dict[tuple[int, ...], tuple[Any, list[Any]]] = field(
        default_factory=dict[tuple[int, ...], "tuple[Any, list[Any]]"]
    )
    """By addresses and sizes: the bindings, and the buffers for which they are right."""


class WebGPU(TimedByHost):
    """An adapter of WebGPU, of those that there are in their order; one queue."""

    def __init__(self, number: int = 0) -> None:
        super().__init__()
        self.wgpu = _wgpu()
        adapter = _adapter(self.wgpu, number)
        self.name = str(adapter.info["device"])
        self.limits: dict[str, int] = dict(adapter.limits)
        self.device = adapter.request_device_sync(required_limits=self.limits)
        self.queue = self.device.queue
        self.place: tuple[int, int] = (WEBGPU, number)
        self._lock = threading.RLock()
        self._encoder: Any = None
        self._recorded = 0

    # -- memory --------------------------------------------------------------------------------

    def allocate(self, count: int) -> int:
        """A buffer of its own, of whole words."""
        size = -(-max(1, count) // APART) * APART
        usage = self.wgpu.BufferUsage
        wanted = usage.STORAGE | usage.COPY_SRC | usage.COPY_DST
        if size > self.limits["max-buffer-size"]:
            raise MemoryError(
                f"a buffer of {self.name} has at most {self.limits['max-buffer-size']:,} bytes,"
                f" not {count:,}"
            )
        with self._said(f"{count:,} bytes"):
            return self.memory.add(self.device.create_buffer(size=size, usage=wanted), size)

    def write(self, address: int, array: Array) -> None:
        """A copy to the device."""
        if not array.nbytes:
            return
        buffer, offset = self.memory.at(address)
        start, stop = words(offset, array.nbytes)
        data = np.ascontiguousarray(array).reshape(-1).view("u1")
        if stop - start != array.nbytes:  # what lies in the same words stays
            whole = self._read(buffer, start, stop)
            whole[offset - start : offset - start + array.nbytes] = data
            data = whole
        with self._lock:
            self._hand_over()
            self.queue.write_buffer(buffer, start, data)

    def read(self, address: int, array: Array) -> None:
        """A copy from the device, after all launches."""
        if array.nbytes:
            buffer, offset = self.memory.at(address)
            start, stop = words(offset, array.nbytes)
            found = self._read(buffer, start, stop)[offset - start :][: array.nbytes]
            array[...] = found.view(array.dtype).reshape(array.shape)

    def _read(self, buffer: Any, start: int, stop: int) -> Array:
        with self._lock, self._said("a copy"):
            self._hand_over()
            return np.array(self.queue.read_buffer(buffer, start, stop - start)).view("u1")

    def copy(self, target: int, source: int, count: int) -> None:
        """A copy on the device, in the order of launches."""
        (to, far), (of, near) = self.memory.at(target), self.memory.at(source)
        if to is of or (far | near | count) % WORD:
            held = np.empty(count, "u1")
            self.read(source, held)
            self.write(target, held)
        elif count:
            with self._lock:
                self._recording().copy_buffer_to_buffer(of, near, to, far, count)

    # -- launches ------------------------------------------------------------------------------

    def launch(self, code: DeviceCode, ready: Ready, at: Sequence[int], status: int) -> None:
        """Runs a kernel on buffers at these addresses, after all that was asked before."""
        if not ready.blocks:
            return
        with self._lock, self._said("a kernel"):
            pipeline = self._pipeline(code, spelt(ready.kernel.loops.name), len(at))
            bindings = self._bound(pipeline, ready, at, status)
            work = self._recording().begin_compute_pass()
            work.set_pipeline(pipeline.compiled)
            work.set_bind_group(0, bindings)
            most = self.limits["max-compute-workgroups-per-dimension"]
            work.dispatch_workgroups(min(ready.blocks, most))  # blocks stride over the rest
            work.end()
            self._recorded += 1
            if self._recorded >= MOST_AT_ONCE:
                self._hand_over()

    def _bound(self, pipeline: Pipeline, ready: Ready, at: Sequence[int], status: int) -> Any:
        """The buffers and sizes of a launch, as a group of bindings."""
        key = (*at, *ready.bytes, *ready.sizes, status)
        owners = [self.memory.at(a)[0] for a in (*at, status)]
        found = pipeline.bound.get(key)
        if found is not None and all(a is b for a, b in zip(found[1], owners, strict=True)):
            return found[0]
        if len(pipeline.bound) >= MOST_GIVEN:
            pipeline.bound.clear()
        group = self._group(pipeline, ready, at, status)
        pipeline.bound[key] = group, owners
        return group

    def _group(self, pipeline: Pipeline, ready: Ready, at: Sequence[int], status: int) -> Any:
        each = [b.dtype.bytes for b in ready.kernel.loops.buffers]
        given = [self._part(*x) for x in zip(at, ready.bytes, each, strict=True)]
        first, state = self._part(status, WORDS * 8, 8)
        sizes = [word_of(n, "webgpu") for n in ready.sizes]
        words = np.array([0, *(i for i, _ in given), *sizes, first], "u4")
        uniform = self.wgpu.BufferUsage.UNIFORM
        told = self.device.create_buffer_with_data(data=words, usage=uniform)
        resources = [state, {"buffer": told, "offset": 0, "size": words.nbytes}]
        resources += [part for _, part in given]
        entries = [{"binding": i, "resource": r} for i, r in enumerate(resources)]
        return self.device.create_bind_group(layout=pipeline.layout, entries=entries)

    def _part(self, address: int, count: int, each: int) -> tuple[int, Any]:
        """The index of the first element of a buffer in what is bound of it, and that."""
        buffer, offset = self.memory.at(address)
        if not count:  # nothing is read of it, and it may lie behind the last word
            return 0, {"buffer": buffer, "offset": 0, "size": APART}
        start, size = bound(offset, count, buffer.size)
        most = self.limits["max-storage-buffer-binding-size"]
        self.check_reach(size, (offset - start + count) // each, count, most)
        return (offset - start) // each, {"buffer": buffer, "offset": start, "size": size}

    def _pipeline(self, code: DeviceCode, name: str, buffers: int) -> Pipeline:
        """A kernel of a program, compiled when it is first needed."""
        kept = code.loaded.get(self)
        if kept is None:
            kept = code.loaded[self] = {"": self.device.create_shader_module(code=code.text)}
        if name not in kept:
            kept[name] = self._compiled(kept[""], name, buffers)
        return kept[name]

    def _compiled(self, module: Any, name: str, buffers: int) -> Pipeline:
        most = self.limits["max-storage-buffers-per-shader-stage"]
        self.check_arrays(buffers, most)
        types = ["storage", "uniform", *["storage"] * buffers]
        visible = self.wgpu.ShaderStage.COMPUTE
        entries = [
            {"binding": i, "visibility": visible, "buffer": {"type": t}}
            for i, t in enumerate(types)
        ]
        layout = self.device.create_bind_group_layout(entries=entries)
        whole = self.device.create_pipeline_layout(bind_group_layouts=[layout])
        stage = {"module": module, "entry_point": name}
        return Pipeline(self.device.create_compute_pipeline(layout=whole, compute=stage), layout)

    # -- order ---------------------------------------------------------------------------------

    def _recording(self) -> Any:
        if self._encoder is None:
            self._encoder = self.device.create_command_encoder()
        return self._encoder

    def _hand_over(self) -> None:
        """Everything that was recorded goes to the device."""
        if self._encoder is not None:
            encoder, self._encoder, self._recorded = self._encoder, None, 0
            self.queue.submit([encoder.finish()])

    @contextmanager
    def _said(self, what: str) -> Generator[None]:
        """Errors of the package as errors of ours."""
        try:
            yield
        except self.wgpu.GPUOutOfMemoryError:
            raise MemoryError(f"{self.name} has no memory left for {what}") from None
        except self.wgpu.GPUError as error:
            raise UserError(
                f"{self.name} refuses {what}: {str(error).strip()}",
                remedy=WITHOUT,
            ) from None

    def wait(self) -> None:
        """Returns once all that was asked has ended."""
        with self._lock:
            self._hand_over()
            self.queue.on_submitted_work_done_sync()


def _wgpu() -> Any:
    """The package, or an error that says how it is installed."""
    try:
        return import_module("wgpu")
    except (ImportError, OSError) as error:
        raise UserError(
            f"target='webgpu' needs the package wgpu, which cannot be imported: {error}",
            remedy=INSTALL,
        ) from None


def _adapter(wgpu: Any, number: int) -> Any:
    """The adapter of a number, or an error; those of OpenGL are others once more."""
    every = wgpu.gpu.enumerate_adapters_sync()
    found = [a for a in every if a.info["backend_type"] != "OpenGL"]
    if number >= len(found):
        names = (f"{i}: {a.info['device']}" for i, a in enumerate(found))
        there = ", ".join(names) or "no device"
        remedy = f"write target='webgpu:{len(found) - 1}'" if found else SOFTWARE
        raise UserError(f"expected device {number} of WebGPU, found {there}", remedy=remedy)
    return found[number]
