"""Packages with arrays of their own are not followed; a static method may be any callable."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import numpy as np
import pytest

import dlvm


class Counted:
    """A callable without code of its own, as compiled extensions have."""

    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def __call__(self, x):
        return x * self.factor


class Holder:
    twice = staticmethod(Counted(2.0))


def test_a_static_method_may_be_any_callable():
    f = dlvm.function(lambda x: Holder.twice(x))
    np.testing.assert_array_equal(f(np.ones(3)), 2 * np.ones(3))


def test_a_framework_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    package = tmp_path / "optax"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import numpy as np\nTABLE = {}\n\n\ndef update(x):\n    TABLE[id(x)] = 1\n"
        "    return np.asarray(x) * 2\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "optax", raising=False)
    import optax

    assert isinstance(optax, types.ModuleType)
    with pytest.raises(dlvm.UserError, match="NumPy array"):
        dlvm.function(lambda x: optax.update(x))(np.ones(3))
    monkeypatch.delitem(sys.modules, "optax", raising=False)
