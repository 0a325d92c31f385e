"""What the array API standard asks of a library and its arrays: namespace, device and types."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError
from dlvm.dsl.trace.defaults import default_float
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import PUBLIC
from dlvm.dsl.words.remedies import ADVICE

from .datatypes import NAMES, constant, isdtype

VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")
"""Versions of the standard whose functions of real numbers there are."""
CPU = "cpu"


class ArrayNamespaceInfo:
    """What ``dlvm.__array_namespace_info__()`` gives: capabilities, devices and element types."""

    def capabilities(self) -> dict[str, Any]:
        """Sizes may not depend on elements, so masks may be assigned to and not read with."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> str:
        """Where arrays are made."""
        return CPU

    def devices(self) -> list[str]:
        """All devices."""
        return [CPU]

    def default_dtypes(self, *, device: str | None = None) -> dict[str, Any]:
        """The element types of arrays that are made without ``dtype=``."""
        _check_device("default_dtypes", device)
        return {
            "real floating": default_float().numpy,
            "integral": np.dtype(np.int64),
            "indexing": np.dtype(np.int64),
        }

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, Any]:
        """The standard's element types by name, those of a kind or of several."""
        _check_device("dtypes", device)
        standard = [n for n in NAMES if n not in ("float16", "bfloat16")]
        return {
            n: np.dtype(constant(n))
            for n in standard
            if kind is None or isdtype(np.dtype(constant(n)), kind)
        }


@facing_users
def array_namespace_info() -> ArrayNamespaceInfo:
    """What the array API standard lets a program ask of dlvm."""
    return ArrayNamespaceInfo()


def provide_namespace(package: ModuleType) -> None:
    """Makes ``package`` what ``x.__array_namespace__()`` returns; ``dlvm`` gives itself."""

    @facing_users
    def namespace(api_version: str | None) -> ModuleType:
        if api_version is not None and api_version not in VERSIONS:
            raise ArgumentError(
                "__array_namespace__: expected an api_version of the standard, "
                f"found {api_version!r}",
                remedy=f"leave it out, or write one of {', '.join(VERSIONS)}",
            )
        return package

    PUBLIC["_namespace"] = namespace


def _to_device(x: Tensor, device: Any, stream: Any) -> Tensor:
    _check_device("to_device", device)
    if stream is not None:
        raise ArgumentError(
            f"to_device takes no stream={stream!r:.40}", remedy="leave it out: there are no streams"
        )
    return x


def _check_device(name: str, device: Any) -> None:
    if device is not None and device != CPU:
        raise ArgumentError(f"{name} takes no device={device!r:.40}", remedy=ADVICE["device="])


PUBLIC["_to_device"] = facing_users(_to_device)
