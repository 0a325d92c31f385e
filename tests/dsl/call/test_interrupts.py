"""A compile that an interrupt ends leaves nothing behind, at whichever instruction it comes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.base import progress
from dlvm.dsl.trace.scopes import Scope, current
from dlvm.ir.core import Builder, current_builder


@pytest.mark.parametrize("kind", [Scope, Builder])
def test_an_interrupt_as_a_trace_ends_leaves_none_active(kind: type, monkeypatch: Any):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    f = dlvm.function(dlvm.grad(lambda x: (dlvm.tanh(x) ** 2).sum()))
    x = np.linspace(-1.0, 1.0, 7)
    for call in (f, f.compile, f.trace):
        with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
            patched.setattr(kind, "__exit__", interrupted)
            call(x)
        assert current() is None
        assert current_builder() is None
        assert progress._running.get() is None  # pyright: ignore[reportPrivateUsage]
    t = np.tanh(x)
    np.testing.assert_allclose(f(x), 2 * t * (1 - t * t), rtol=1e-12)
