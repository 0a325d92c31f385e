"""``dlvm.default_dtype``: the element type of floats whose type nothing else says.

The default is read while Python runs: by functions that make arrays, by promotion, and by the key
of every program. This module knows no values.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, overload

from dlvm.base.errors import ArgumentError
from dlvm.dsl.words.origins import user_origin
from dlvm.ir import F32, F64, DType

CHOICES = (F32, F64)
DEFAULT: ContextVar[DType] = ContextVar("dlvm_default_dtype", default=F64)
changes: list[None] = []
"""Not empty once the default was set in this process; until then calls do not ask for it."""


def default_float() -> DType:
    """The element type of floats whose type nothing else says."""
    return DEFAULT.get()


class Restored:
    """What ``dlvm.default_dtype("f32")`` gives: as a context, it restores the former default."""

    def __init__(self, before: DType, now: DType) -> None:
        self._before = before
        self._now = now

    def __repr__(self) -> str:
        return f"<default_dtype {self._now}, was {self._before}>"

    def __enter__(self) -> None:
        DEFAULT.set(self._now)

    def __exit__(self, *_: object) -> None:
        DEFAULT.set(self._before)


@overload
def default_dtype() -> str: ...
@overload
def default_dtype(dtype: Any) -> Restored: ...
def default_dtype(dtype: Any = None) -> str | Restored:
    """The element type of floats whose type nothing else says: ``"f64"``, as NumPy's, or ``"f32"``.

        dlvm.default_dtype("f32")           # from here on
        with dlvm.default_dtype("f32"):     # inside only
            w = dlvm.random.normal(key, (784, 10))
        dlvm.default_dtype()                # "f64"

    Under ``"f32"`` arrays that dlvm makes without ``dtype=`` are f32, staged or not, and an
    operation of dlvm gives f64 only where one of its operands is an f64 array: integers and bools
    that meet f32 or a Python float give f32, and NumPy's float64 *scalars* (``np.sqrt(8)``) in
    staged code take part as Python's floats do. NumPy arrays of f64 widen all the same, and what
    NumPy computes by itself is as NumPy says. Functions compile again for another default. The
    setting holds for this thread; another thread starts with ``"f64"`` unless it is given the
    context: ``Thread(target=contextvars.copy_context().run, args=(work,))``.
    """
    before = DEFAULT.get()
    if dtype is None:
        return str(before)
    now = _chosen(dtype)
    changes.append(None)
    del changes[1:]
    DEFAULT.set(now)
    return Restored(before, now)


def _chosen(dtype: Any) -> DType:
    """The default that the user names."""
    for kind in CHOICES:
        if dtype is kind or dtype == str(kind) or kind.numpy == dtype:
            return kind
    raise ArgumentError(
        f"default_dtype: expected 'f32' or 'f64', found {dtype!r:.60}",
        origin=user_origin(),
        remedy='write dlvm.default_dtype("f32")',
    )
