"""Results of a device beside those of the host, for every device whose kernels are printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.gpu.devices.choosing import printed
from tests.gen.values import same_bits


def device_or_skip(target: str) -> Any:
    """The device, or no test with it, said loudly."""
    try:
        return printed(target, 0)
    except UserError as error:
        pytest.skip(f"nothing was run on {target}: {error}")


def on_device(target: str, f: Any, *arguments: Any) -> list[np.ndarray]:
    """The results on a device."""
    return [*map(np.asarray, dlvm.tree.leaves(dlvm.function(f, target=target)(*arguments)))]


def assert_close(target: str, f: Any, *arguments: Any, ulp: float = 0) -> None:
    """The bits of the host, or floats as near as other roundings of products and functions are."""
    expected = dlvm.tree.leaves(dlvm.function(f)(*arguments))
    for a, b in zip(on_device(target, f, *arguments), expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        if ulp and a.dtype.kind == "f":
            eps = np.finfo(a.dtype).eps / 2
            assert np.allclose(a, b, rtol=ulp * eps, atol=ulp * eps / 4, equal_nan=True)
        else:
            assert same_bits(a, np.asarray(b))
