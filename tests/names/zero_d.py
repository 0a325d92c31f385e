"""Arrays without axes in the place of each parameter of each public function.

NumPy takes such an array for an axis, a size or a number that it holds. Each call must give what
NumPy gives, or refuse the argument with an error for users.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import UserError

from .forms import Form, leaves
from .judging import called, has_meaning, judged
from .meanings import MEANINGS

ZERO_D = (
    *(np.array(1), np.array(0), np.array(-1), np.array(2, np.int8), np.array(3, np.uint8)),
    *(np.array(0.5), np.array(2.0, np.float32), np.array(True), np.array(1j), np.array("a")),
)
LINES = 12
VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def variants(form: Form, given: tuple[np.ndarray, ...] = ZERO_D) -> Iterator[tuple[str, Form]]:
    """The call with an array of no axes for one parameter, and how to name the change."""
    signature = inspect.signature(form.call)
    for parameter in signature.parameters.values():
        if parameter.kind in VARIADIC:
            continue
        for array in given:
            bound = signature.bind(*form.args, **form.options)
            bound.arguments[parameter.name] = array
            order = [n for n in signature.parameters if n in bound.arguments]
            bound.arguments = {n: bound.arguments[n] for n in order}
            said = f"{form} with {parameter.name}={array!r}"
            yield said, replace(form, args=bound.args, options=bound.kwargs)


def fault(said: str, form: Form, staged: bool) -> str | None:
    """What is wrong with the answer to one call, outside of a trace or in one."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = _staged(form) if staged else called(form)
        except UserError as error:
            text = str(error)
            told = "  --> " in text and text.count("help: ") == 1
            return None if told and len(text.splitlines()) <= LINES else f"{said}: {text}"
        except Exception as error:
            return f"{said}: {type(error).__name__}: {error}"
        if staged or not _is_known(form):
            return None
        return next((f"{said}: {wrong}" for wrong in judged(form, found)), None)


def _is_known(form: Form) -> bool:
    """Whether NumPy itself says the values.

    Meanings written for the tests compute in the type of their operands, which for small integers
    are halves, so they say nothing of these.
    """
    numbers = all(a.ndim or a.dtype in (np.int64, np.float64) for a in form.arrays)
    return numbers and form.name not in (*MEANINGS, *UNDEFINED) and has_meaning(form)


UNDEFINED = ("reciprocal", "arange", "linalg.svd", "linalg.eigh")
"""Signs of singular vectors and of eigenvectors are free, and other algorithms choose others.
The reciprocal of the whole number 0 is no number, and each machine gives another one. How many
numbers ``arange`` gives may change with the last digit of its step: its own tests hold its values.
"""


def _staged(form: Form) -> list[Any]:
    """Traces the call; its results have no values yet."""
    found: list[Any] = []

    def program(x: Any) -> Any:
        found[:] = leaves(form.on(form.call, form.arrays))
        return x

    dlvm.function(program).trace(np.ones(2))
    return []
