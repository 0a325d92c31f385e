"""Arguments on a device: arrays of dlvm and of other libraries, told by their protocols.

They are leaves like NumPy's arrays for programs that run there, and errors for all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dlvm.base.elsewhere import Elsewhere, Lent
from dlvm.base.errors import TraceError, UserError
from dlvm.ir.sharding.sharded import Sharded

from .scopes import user_origin
from .sharded import check_mesh

PROTOCOL = "__cuda_array_interface__"
ON_THE_HOST = {1, 3}
"""Types of devices of DLPack whose memory NumPy reads: kDLCPU, and kDLCUDAHost."""


def on_a_device(x: Any, label: str = "x") -> Elsewhere | None:
    """The array of a device that an object is or speaks for; None for all others."""
    if isinstance(x, Elsewhere):
        return x
    if isinstance(x, np.ndarray | np.generic):
        return None
    try:
        return _spoken_for(x, label)
    except UserError as error:
        raise error.located(user_origin()) from None


def _spoken_for(x: Any, label: str) -> Lent | None:
    """The array of another library, by one of two protocols."""
    kind: Any = x.__class__
    refuse_gradient(x, label)
    packs = hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")
    told = getattr(x, PROTOCOL, None) if hasattr(kind, PROTOCOL) else None
    if told is not None and not (packs and np.dtype(told["typestr"]).kind == "V"):
        ordinal = int(x.__dlpack_device__()[1]) if packs else None
        return Lent.told(x, told, label, ordinal)  # of bf16, as V2, it does not tell; DLPack does
    if packs:
        if int(x.__dlpack_device__()[0]) in ON_THE_HOST:
            return None
        from dlvm.gen.gpu.dlpack import received

        return received(x, label)
    return None


def refuse_gradient(x: Any, label: str = "x") -> None:
    """An error for a tensor of PyTorch that requires a gradient, which dlvm would not give it."""
    of_torch = x.__class__.__module__.partition(".")[0] == "torch"
    if of_torch and getattr(x, "requires_grad", False) is True:
        raise TraceError(
            "a tensor of PyTorch that requires a gradient is not taken: it would get none",
            origin=user_origin(),
            remedy=f"pass {label}.detach().numpy()",
        )


def refuse_elsewhere(arrays: Sequence[Any], labels: Sequence[str]) -> None:
    """An error for an array on a device, or of a mesh, that reaches a program of the host."""
    for x, label in zip(arrays, labels, strict=True):
        if isinstance(x, Sharded):
            check_mesh(x, label, None)
        if isinstance(x, Elsewhere):
            raise UserError(
                f"{label}: expected an array of the host, found one on a device: the function"
                " runs on the CPU",
                origin=user_origin(),
                remedy=x.remedy.format(x=label),
            )


def hosted(arrays: Sequence[Any]) -> list[Any]:
    """The arrays, copies on the host of those on a device."""
    return [np.asarray(x) if isinstance(x, Elsewhere) else x for x in arrays]


def captured_elsewhere(x: Elsewhere) -> TraceError:
    """The error for an array on a device that a staged function reads and is not given."""
    where = "shared by ranks" if isinstance(x, Sharded) else "on a device"
    return TraceError(
        f"a staged function captures an array {where}, of {x.dtype} and shape {x.shape}",
        origin=user_origin(),
        remedy="pass it as an argument",
    )
