"""How programs with ``target="cuda"`` reach the GPU: by NVIDIA's driver alone, or by pycuda."""

from __future__ import annotations

from typing import Any

from dlvm.dsl.trace.facing import facing_users

__all__ = ["use"]


@facing_users
def use(backend: str = "driver", *, stream: Any = None) -> None:
    """Chooses how programs for a GPU reach it from now on, in the whole process.

    ``"driver"`` calls NVIDIA's driver and needs no package; it is what runs without a choice.
    ``"pycuda"`` takes pycuda's primary context and pool of memory. ``stream`` is the stream to
    which copies and kernels go, of pycuda, CuPy or PyTorch, or its handle; by default the default
    stream.
    """
    from dlvm.gen.gpu.devices.choosing import choose

    choose(backend, stream)
