"""Testing what is built with dlvm: derivatives, random arrays and programs, machine code.

Nothing is imported before it is used; the strategies need Hypothesis.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .completeness import assert_complete
    from .drawing.random_programs import Program, random_program
    from .equality import assert_compiled_equals_interpreted
    from .findings import Checked, Fault, GradientError, Identity, Kink, Report
    from .gradients import gradcheck
    from .kept_digits import Digits, digits
    from .laws import assert_law
    from .strategies import arrays, elements, programs, shapes

_HOMES = {
    "completeness": ("assert_complete",),
    "kept_digits": ("Digits", "digits"),
    "equality": ("assert_compiled_equals_interpreted",),
    "findings": ("Checked", "Fault", "GradientError", "Identity", "Kink", "Report"),
    "gradients": ("gradcheck",),
    "laws": ("assert_law",),
    "drawing.random_programs": ("Program", "random_program"),
    "strategies": ("arrays", "elements", "programs", "shapes"),
}

__all__ = [
    "Checked",
    "Digits",
    "Fault",
    "GradientError",
    "Identity",
    "Kink",
    "Program",
    "Report",
    "arrays",
    "assert_compiled_equals_interpreted",
    "assert_complete",
    "assert_law",
    "digits",
    "elements",
    "gradcheck",
    "programs",
    "random_program",
    "shapes",
]


if not TYPE_CHECKING:  # a type checker takes every name for known where it sees this function

    def __getattr__(name: str) -> Any:
        for home, names in _HOMES.items():
            if name in names:
                return getattr(importlib.import_module(f".{home}", __name__), name)
        raise AttributeError(f"module 'dlvm.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
