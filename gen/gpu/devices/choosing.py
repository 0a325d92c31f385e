"""Which device runs programs: the GPU that a target names, the chosen one, or the first."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

from dlvm.base.errors import UserError
from dlvm.gen.gpu.device import Device
from dlvm.gen.printed.languages import DIALECTS
from dlvm.target import Target

from .driver import Driver, check, driver
from .opencl import OpenCL
from .opengl import OpenGL
from .pycuda import Pycuda
from .webgpu import WebGPU

INSIDE: ContextVar[Device | None] = ContextVar("device", default=None)
BACKENDS = ("driver", "pycuda")
BY_DIALECT: dict[str, Callable[[int], Device]] = {
    "opencl": OpenCL,
    "webgpu": WebGPU,
    "opengl": OpenGL,
}
_chosen: dict[str, Driver | Pycuda] = {}
"""The choice of the process, under the empty name."""


def current(target: Target) -> Device:
    """The device on which programs of a target run; without a driver an error that says so."""
    inside = INSIDE.get()
    if inside is not None:
        return inside
    if target.dialect:
        return printed(target.dialect, target.device or 0)
    found = _chosen.get("")
    if found is None or target.device not in (None, found.place[1]):
        found = driver(0, target.device or 0)
    check(target, found.capability)
    return found


@cache
def printed(dialect: str, number: int) -> Device:
    """The device of a number that runs a language in which kernels are printed."""
    if dialect not in BY_DIALECT:
        language = DIALECTS[dialect]
        raise UserError(
            f"target={dialect!r} prints {language.language}, which no device here runs",
            remedy=language.runs,
        )
    return BY_DIALECT[dialect](number)


def choose(backend: str, stream: Any) -> None:
    """The way to the device from now on, and the stream to which everything goes."""
    if backend not in BACKENDS:
        raise UserError(
            f"expected a way to the GPU, one of {', '.join(BACKENDS)}, found {backend!r:.40}",
            remedy="name one of these, or leave the call out",
        )
    _chosen[""] = Pycuda(stream) if backend == "pycuda" else driver(handle(stream), 0)


def handle(stream: Any) -> int:
    """The number of a stream: a number, or one of pycuda, CuPy or PyTorch."""
    for name in ("handle", "cuda_stream", "ptr"):
        if hasattr(stream, name):
            return int(getattr(stream, name))
    if stream is None or isinstance(stream, int):
        return stream or 0
    raise UserError(
        f"expected a stream of CUDA, found {stream!r:.40}",
        remedy="pass the number of its handle, or leave it out",
    )


@contextmanager
def using(device: Device) -> Generator[Device]:
    """Programs for GPUs run on this device inside."""
    token = INSIDE.set(device)
    try:
        yield device
    finally:
        INSIDE.reset(token)
