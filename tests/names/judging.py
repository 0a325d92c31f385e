"""Whether a call gave what its meaning says: the one judge of the sweep and of the fuzzer."""

from __future__ import annotations

import numpy as np

from . import values
from .forms import Form, leaves
from .meanings import MEANINGS
from .slopes import is_float
from .table import BESIDE_ONE, DIFFERS, FINITE, SHAPED


def called(form: Form) -> list[np.ndarray]:
    """The results of the public function, outside of a trace."""
    return [np.asarray(r) for r in leaves(form.on(form.call, form.arrays))]


def has_meaning(form: Form) -> bool:
    """Whether NumPy takes the operands, and means the same by the call."""
    return str(form) not in DIFFERS and values.said(form) is not None


def may_refuse(form: Form) -> bool:
    """NumPy takes scalars for vectors, and shapes without elements that fit nothing.

    What truths mean to a function that is ours alone, it may leave open. Vectors of two elements
    have a cross product in NumPy, which is deprecated, and none in the array API standard.
    """
    if form.name in ("cross", "linalg.cross") and any(2 in a.shape for a in form.arrays):
        return True
    ours = form.name in MEANINGS and any(a.dtype == bool for a in form.arrays)
    return ours or any(not a.size or not a.ndim for a in form.arrays)


def judged(form: Form, found: list[np.ndarray]) -> list[str]:
    """What is wrong with the values that a call gave."""
    floats = [a.dtype for a in form.arrays if is_float(a)]
    given = [r.dtype for r in found if is_float(r)]
    dtype = floats[0] if floats else given[0] if given else np.dtype(float)
    middle = values.exact(form)
    allowed = values.bounds(form, middle, values.exact, dtype)
    if form.name in BESIDE_ONE:
        allowed = [a + values.SAFETY * values.last_place(dtype) for a in allowed]
    if form.name in FINITE and _overflows(form):
        allowed = [np.full_like(a, np.inf) for a in allowed]
    if form.name in SHAPED and [a.shape for a in found] != [b.shape for b in middle]:
        return []
    return values.faults(found, middle, allowed) + values.dtype_fault(form, found)


def _overflows(form: Form) -> bool:
    """Whether the meaning, computed in the type of the operands, leaves its range on the way."""
    meant = values.said(form)
    return meant is not None and not all(np.all(np.isfinite(m.astype(float))) for m in meant)
