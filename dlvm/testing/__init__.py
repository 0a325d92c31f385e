"""Testing what is built with dlvm: derivatives, random arrays and programs, machine code.

Nothing is imported before it is used; the strategies need Hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .findings import Checked, Fault, GradientError, Identity, Kink, Report
    from .gradients import gradcheck

_HOMES = {
    "gradcheck": "gradients",
    "GradientError": "findings",
    "Report": "findings",
    "Checked": "findings",
    "Fault": "findings",
    "Identity": "findings",
    "Kink": "findings",
}

__all__ = ["Checked", "Fault", "GradientError", "Identity", "Kink", "Report", "gradcheck"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'dlvm.testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
