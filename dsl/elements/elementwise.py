"""Element-wise operations on any operands: promotion, broadcasting, and names from classes.

``apply`` is how every public function writes an element-wise operation; ``derive`` makes the
public function of a class when its name is first asked for. Compositions that have no class of
their own stand in ``arithmetic``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dlvm.base.errors import UserError
from dlvm.dsl.trace.accidents import note_accident
from dlvm.dsl.trace.operands import (
    broadcast_shapes,
    fit,
    here,
    is_weak,
    kind_of,
    known_dtype,
    numpy_promoted,
    plain,
    promoted,
    shape_of,
)
from dlvm.dsl.trace.scopes import user_origin
from dlvm.dsl.trace.tensor import Tensor
from dlvm.dsl.words.names import DERIVERS, LISTERS, PUBLIC
from dlvm.ir import BOOL, F64, OPS, DType, Op, Value
from dlvm.ops import Add, And, Elementwise, Mul, Or
from dlvm.ops.elements.logic import Comparison

from .eager import public

OF_TRUTHS: dict[type[Elementwise], type[Elementwise]] = {Add: Or, Mul: And}
"""The meaning of arithmetic on arrays of bools in NumPy."""


def apply(cls: type[Elementwise], *xs: Any) -> Any:
    """One element-wise operation on any operands, promoted and broadcast as NumPy does."""
    if (alike := _alike(cls, xs)) is not None:
        return results(cls(*alike), weak=False)
    xs = tuple(plain(x) for x in xs)
    kinds = tuple(kind_of(x) for x in xs)
    weak, compares = cls.of_python and all(is_weak(x) for x in xs), issubclass(cls, Comparison)
    promote = numpy_promoted if weak or compares else promoted  # f32 holds fewer whole numbers
    dtypes = promote(_promotes_as(cls), kinds)
    cls = OF_TRUTHS.get(cls, cls) if set(dtypes) == {BOOL} else cls
    note_widening(cls.name, xs, dtypes, compares)
    shape = broadcast_shapes([shape_of(x) for x in xs])
    op = cls(*(fit(x, d, shape) for x, d in zip(xs, dtypes, strict=True)))
    return results(op, weak)


def _promotes_as(cls: type[Elementwise]) -> str:
    """The function of NumPy whose promotion applies."""
    name = cls.public or cls.name
    if cls.accepts != "f" or hasattr(np, name):
        return name
    return "exp" if len(cls.layout) == 1 else "arctan2"


def results(op: Op, weak: bool) -> Any:
    """The results of an operation: one array, or a tuple of several."""
    scope = here()
    if op.results[0] is op:
        return Tensor(op, scope, weak)
    return tuple(Tensor(r, scope, weak) for r in op.results)


def _alike(cls: type[Elementwise], xs: Sequence[Any]) -> list[Value] | None:
    """The operands as they are, where all are staged floats of one type: the common case."""
    first = xs[0]
    if type(first) is not Tensor or first.weak or not first.element.is_float:
        return None
    t = first.type
    if any(type(x) is not Tensor or x.weak or x.type != t for x in xs[1:]):
        return None
    return [x.read() for x in xs]


def note_widening(
    name: str, xs: Sequence[Any], dtypes: Sequence[DType], silent: bool = False
) -> None:
    """Records for ``explain()`` a line at which values become f64.

    ``silent`` is one whose result is of another type, or whose type the user has named.
    """
    if F64 not in dtypes:
        return
    for x, dtype in zip(xs, dtypes, strict=True):
        if dtype is F64 and not is_weak(x) and known_dtype(x.dtype) is not F64:
            given = ", ".join(str(known_dtype(y.dtype)) for y in xs if not is_weak(y))
            here().trace.widenings.append((f"{name} of {given} computes in f64", user_origin()))
            if not silent:
                note_accident(name, xs)
            return


def refuse_out(out: Any) -> None:
    """Refuses ``out=``, because the compiler plans the memory of staged code."""
    if out is not None:
        raise UserError(
            "out= has no meaning in staged code: memory is planned by the compiler",
            origin=user_origin(),
            remedy="assign the result: x = ..., or x[...] = ... into an array made here",
        )


def _of_elements(cls: type[Elementwise]) -> Callable[..., Any]:
    def call(*xs: Any, out: None = None, **named: Any) -> Any:
        refuse_out(out)
        given = signature.bind(*xs, **named).arguments if named or len(xs) != len(names) else {}
        return apply(cls, *(given.values() or xs))

    names = [*(spec.name for spec in cls.layout)]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, kind) for n in names]
    parameters.append(inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None))
    signature = inspect.Signature(parameters)
    call.__signature__ = signature  # type: ignore[attr-defined]
    return call


def _derivable() -> dict[str, type[Op]]:
    out: dict[str, type[Op]] = {}
    for cls in OPS.values():
        if issubclass(cls, Elementwise) and {spec.kind for spec in cls.layout} == {"operand"}:
            out[cls.public or cls.name] = cls
    return out


def derive(name: str) -> Callable[..., Any] | None:
    """The public function of an element-wise class, if there is one of that public name."""
    cls = _derivable().get(name)
    if cls is None:
        return None
    call = _of_elements(cls)  # type: ignore[arg-type]
    call.__doc__ = cls.__doc__
    public(name, keeps_order=True)(call)
    return PUBLIC[name]


DERIVERS.append(derive)
LISTERS.append(lambda: list(_derivable()))
