"""Numerics: the class that each law has, and which classes a compilation licenses.

A law replaces an operation by something else that computes it. Its *class* says how far the two
may be apart:

- ``EXACT``: the same bits for every input, NaN, infinities and both zeros included (which NaN it
  is does not count). Exact laws always apply.
- ``ROUNDING``: laws of linear algebra and of contractions. For finite operands without overflow
  on the way they change how results are rounded, and nothing else. They apply by default.
- ``FAST``: identities of the real numbers that are wrong for some floats, such as ``x - x = 0``
  where x is infinite. They apply under ``numerics="fast"`` alone.

The *mode* of a compilation, ``numerics=``, is one of ``MODES``. It is set around the passes of one
compilation; the passes that have a law of theirs to apply ask ``licensed``.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

from dlvm.base.errors import UserError

LawClass = Literal["exact", "rounding", "fast"]
Mode = Literal["strict", "default", "fast"]

EXACT: LawClass = "exact"
ROUNDING: LawClass = "rounding"
FAST: LawClass = "fast"
MODES: tuple[Mode, ...] = get_args(Mode)

LICENSED: dict[Mode, frozenset[LawClass]] = {
    "strict": frozenset({EXACT}),
    "default": frozenset({EXACT, ROUNDING}),
    "fast": frozenset({EXACT, ROUNDING, FAST}),
}
"""The classes of laws that each mode applies."""

_mode: ContextVar[Mode] = ContextVar("dlvm_numerics", default="default")


def mode_named(name: object) -> Mode:
    """The mode that a user names; anything else is an error that lists the modes."""
    for mode in MODES:
        if name == mode and isinstance(name, str):
            return mode
    raise UserError(
        f"numerics={name!r:.40}: there is no such mode",
        remedy='it can be "default", "strict" or "fast"; see docs/numerics.md',
    )


@contextmanager
def numerics(mode: Mode) -> Generator[None]:
    """Passes that run inside apply the laws that this mode licenses."""
    token = _mode.set(mode)
    try:
        yield
    finally:
        _mode.reset(token)


def current_mode() -> Mode:
    """The mode of the compilation that is running."""
    return _mode.get()


def licensed(law_class: LawClass) -> bool:
    """Whether the compilation that is running applies laws of a class."""
    return law_class in LICENSED[_mode.get()]
