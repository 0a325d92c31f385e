"""Errors for Python that can't be staged; the remedies are those of the table in ``words``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dlvm.base.errors import Origin, StagedAttributeError, StagedTypeError, TraceError, closest
from dlvm.dsl.words.lines import Match, advised, assigned, joined
from dlvm.dsl.words.names import lookup
from dlvm.dsl.words.origins import calls_in_library
from dlvm.dsl.words.remedies import (
    ADVICE,
    ARRAY,
    CALLED,
    FLOAT,
    INDEX,
    INT,
    INTO,
    MASK,
    TEXT,
    TRUTH,
)
from dlvm.ir import TensorType

from .scopes import current, refusal, user_origin
from .suggestions import instead

if TYPE_CHECKING:
    from .sizes import Size
    from .tensor import Tensor


def no_truth(x: Tensor) -> TraceError:
    """The error when Python asks whether a staged value is true."""
    origin = user_origin()
    if not x.alive:
        return used_after(x)
    return refusal(
        TraceError(
            f"{x.describe()} has no truth value while the function is traced",
            origin=origin,
            remedy=f"write {told(origin, TRUTH) or joined(origin) or CHOICE}",
        )
    )


CHOICE = "dlvm.where(condition, a, b), or dlvm.cond(condition, then, otherwise, *xs)"


def told(origin: Origin, asked: str) -> str | None:
    """The user's line as it would be written on staged values, if a pattern knows it."""
    found = advised(origin, asked)
    return None if found is None else found.remedy()


def no_number(x: Tensor, what: str) -> TraceError:
    """The error when Python or NumPy need the number that a staged value has only in a call."""
    origin = user_origin()
    if not x.alive:
        return used_after(x)
    if what == ARRAY and (call := _of_library()):
        return TraceError(
            f"{call[0]} can't be staged: it makes a NumPy array of {x.describe()}",
            origin=origin,
            remedy=call[1],
        )
    found = advised(origin, what)
    said = f"become {what}"
    if found is not None and INTO in found.pattern.asked:
        said = f"go into the NumPy array {found.target}"
    remedies = {
        ARRAY: _as_static(x) if _may_be_static(x) else GATHERED,
        INT: "write x.astype(int)",
        TEXT: "return it, and write the text after the call",
        INDEX: _as_static(x),
    }
    return refusal(
        TraceError(
            f"{x.describe()} can't {said} while the function is traced",
            origin=origin,
            remedy=remedies.get(what, KEEP) if found is None else f"write {found.remedy()}",
        )
    )


def _of_library() -> tuple[str, str] | None:
    """The function of SciPy that the user called on staged values, and what to call instead."""
    calls = [c for c in calls_in_library() if c.startswith("scipy.") and "._lib." not in c]
    for name in (c.rpartition(".")[2] for c in calls):
        if there := f"write dlvm.{name}" if lookup(name) else instead(name):
            return f"scipy's {name}", there
    return (f"scipy's {calls[0].rpartition('.')[2]}", CALLED) if calls else None


def _as_static(x: Tensor) -> str:
    """How the user declares a number of theirs as a size, which is part of the code."""
    owner, _, field = x.label.rpartition(".")
    if owner and field.isidentifier():
        return f"declare the field as {field}: dlvm.static[int], which makes it part of the code"
    if _may_be_static(x):
        return f'write dlvm.function(f, static=("{x.label}",)), which makes it part of the code'
    return "take a size from x.shape or from a static argument; x[i] and dlvm.take take an index"


def _may_be_static(x: Tensor) -> bool:
    """Whether it is an argument that is one whole number."""
    scope = current()
    whole = x.label.isidentifier() and not x.type.shape and x.element.is_integer
    return whole and scope is not None and x.contents in scope.root.params


GATHERED = "write dlvm.asarray(x), also of a list of several"
KEEP = "keep it as it is, or return it and convert the result"


def no_number_of_size(size: Size, what: str) -> TraceError:
    """The error when Python or NumPy need the number that an open size has only in a call."""
    remedies = {
        FLOAT: "compute with the size itself, which is a number: x / x.shape[0] ** 0.5",
        INT: "use the size itself, in shapes and as a number",
        TEXT: "drop the format, or write dlvm.print(n), which writes it when the call gets there",
    }
    origin = user_origin()
    found = None if what == TEXT else advised(origin, what)
    converts = found is not None and found.pattern.code == f"{what}(a)"
    return TraceError(
        f"the size {size} is not known while tracing, so it can't become {what}",
        origin=origin,
        remedy=remedies.get(what, OPEN) if found is None or converts else f"write {found.remedy()}",
    )


OPEN = (
    "use the symbolic size itself in shapes, dlvm.fori_loop or dlvm.scan in the place of range, "
    "or compile for fixed shapes"
)


def into_numpy(name: str) -> TraceError:
    """The error when a function of NumPy would write staged values into a NumPy array."""
    origin = user_origin()
    found = advised(origin, INTO)
    target = f"the NumPy array {found.target}" if found is not None else "a NumPy array"
    return TraceError(
        f"np.{name} can't change {target} by staged values",
        origin=origin,
        remedy=f"write {found.remedy() if found else 'a new array, w = w + v, and return it'}",
    )


def of_unknown_size(x: TensorType, mask: TensorType) -> TraceError:
    """The error for a mask as an index: the size of the result is known only in a call."""
    origin = user_origin()
    found = advised(origin, MASK)
    return TraceError(
        "a mask as an index gives a result whose size is not known while tracing",
        origin=origin,
        remedy=f"write {KEPT if found is None else _masked(found, x, mask)}",
    )


KEPT = (
    "dlvm.where(mask, new, old) of whole arrays for what changes where the mask holds, and "
    "x.sum(where=mask) for what reduces"
)


def _masked(found: Match, x: TensorType, mask: TensorType) -> str:
    """The user's line on whole arrays, with the mask broadcast along the axes that it lacks."""
    missing, options = x.rank - mask.rank, found.options
    if isinstance(found.bound.get("args"), list) and len(found.bound["args"]) > len(options):
        options["axis"] = found.first
    if missing and mask.rank > 1 and "axis" in options:
        return KEPT
    if not missing:
        options.pop("axis", None)  # there is one axis of what the mask takes
    holds = found.text("m")
    if missing:
        plain = holds if holds.isidentifier() else f"({holds})"
        holds = f"{plain}[..., {', '.join(['None'] * missing)}]"
    elif not holds.isidentifier() and found.pattern.remedy.startswith("{m}"):
        holds = f"({holds})"
    kind = x.dtype.numpy
    limits = np.iinfo(kind) if kind.kind in "iu" else None
    return found.remedy(
        m=holds,
        keys="".join(f"{name}={text}, " for name, text in options.items()),
        least=str(limits.min) if limits else "-np.inf",
        most=str(limits.max) if limits else "np.inf",
    )


def not_assignable(x: Tensor, held: str, outside: bool) -> TraceError:
    """The error for an assignment into an array of the caller or of code around a region."""
    origin = user_origin()
    found = assigned(origin)
    name, remedy = (x.label or "x", None) if found is None else found
    copied = f"change a copy and return it: {plain_variable(name)} = {name}.copy()"
    carried = f"make {name} part of what the body takes and returns"
    return TraceError(
        f"assignment into {name}: {x.type}, {held}",
        origin=origin,
        remedy=carried if outside else f"write {remedy}" if remedy else copied,
    )


def plain_variable(name: str) -> str:
    """A variable name for a copy of an argument, which may be known by a path."""
    return name if name.isidentifier() else "x"


def no_hash_of_size(size: Size) -> StagedTypeError:
    """The error when an open size is used as a key of a dict or a member of a set."""
    return StagedTypeError(
        f"the size {size} is not known while tracing, so it has no hash and is no key",
        origin=user_origin(),
        remedy="choose with dlvm.where or dlvm.cond, or compile for fixed shapes",
    )


def unknown_length(x: Tensor, what: str) -> TraceError:
    """The error when Python iterates over an axis whose size is unknown or that does not exist."""
    reason = "its leading size is a symbol" if x.type.shape else "it has no axes"
    return TraceError(
        f"{what} over {x.describe()}: {reason}",
        origin=user_origin(),
        remedy="use dlvm.scan or dlvm.map over the leading axis, and x.shape[0] as its size",
    )


def used_after(x: Tensor) -> TraceError:
    """The error for a staged value used after the trace or region in which it was made."""
    return TraceError(
        f"a staged value ({x.describe()}) is used after its trace or region has ended",
        origin=user_origin(),
        remedy="return it from the function, and don't store staged values outside",
    )


def not_in_place(x: Tensor, what: str, remedy: str) -> TraceError:
    """The error for a change in place that staged values do not support."""
    return TraceError(
        f"{x.describe()} can't {what}", origin=user_origin(), remedy=f"write {remedy}"
    )


def not_like_python(x: Tensor, what: str, remedy: str) -> StagedTypeError:
    """The error when Python treats a staged value as another kind of object."""
    if not x.alive:
        return StagedTypeError(used_after(x).message, origin=user_origin(), remedy=KEEP)
    said = f"{x.describe()} {what} while the function is traced"
    return StagedTypeError(said, origin=user_origin(), remedy=remedy)


OF_ARRAYS = frozenset([*dir(np.ndarray), "at", "mT"])
"""Attributes of arrays that users know; a staged value has others, which nobody means."""


def no_protocol(x: Tensor, name: str) -> StagedAttributeError:
    """The error for a special method that staged values do not have."""
    return StagedAttributeError(
        f"a staged array has no {name!r}",
        origin=user_origin(),
        remedy="use it as an array: dir(dlvm) lists the functions there are",
    )


def no_attribute(x: Tensor, name: str, known: Sequence[str]) -> StagedAttributeError:
    """The error for a method or attribute that staged arrays do not have."""
    near = closest(name, [n for n in known if n[0] != "_" and n in OF_ARRAYS])
    there = f"write dlvm.{name}(x)" if lookup(name) else ADVICE.get(f"x.{name}")
    meant = instead(name)
    return StagedAttributeError(
        f"{x.describe()}: a staged array has no {name!r}",
        origin=user_origin(),
        remedy=there
        or meant
        or (near and f"did you mean {near!r}?")
        or "dir(dlvm) lists the functions there are",
    )
