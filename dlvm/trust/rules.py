"""Finds the operation whose derivative is wrong: each one is checked alone, at its own operands.

The program runs once by the references, and the operands of every operation are kept. Each
operation with a derivative rule (control flow has none of its own) is then checked as a program by
itself: by the caller's check of whole gradients, or by that of one declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from dlvm.ad import expand
from dlvm.ad.batch import BATCHED
from dlvm.ad.forward import TANGENTS
from dlvm.ad.reverse import ADJOINTS
from dlvm.base.errors import DlvmError, Origin, UserError
from dlvm.ir import Array, Declaration, Module, Op
from dlvm.ops.families import Control, Creation, Effect, Movement
from dlvm.ops.flow.custom import Custom

from .alone import alone, operands_of, reached
from .derivatives import arguments_of, in_types_of, lanes_of, of_primal, wrong
from .failure import Law
from .recast import widened

IsWrong = Callable[[Module, Sequence[Array], tuple[int, ...], int], bool]
CHECKED_OPERATIONS = 200
"""Number of operations that are checked."""


@dataclass
class Blame:
    """The operation whose derivative is wrong by itself."""

    op: str = ""
    origin: Origin | None = None
    rule: Origin | None = None
    """The line of the user's rule for it, if there is one."""


def guilty(
    module: Module,
    arrays: Sequence[Array],
    order: int,
    is_wrong: IsWrong,
    of_values: bool,
    stated: bool = False,
) -> Blame | None:
    """The first operation whose derivative, of this order or below, is wrong by itself.

    With ``of_values``, the wrong number is the value that the derivative rule returns, not the
    slope. With ``stated``, only derivatives that the program states are checked.
    """
    try:
        every = operands_of(module, module.main.name, arrays)
        seen = ((op, xs) for op, xs in every.items() if op.ruled or not stated)
        for op, operands in islice(seen, CHECKED_OPERATIONS):
            wrt = () if is_surrogate(op) else varied(op)
            single = alone(op, operands, module) if wrt else None
            if single is not None and is_wrong(single, operands, wrt, order):
                said = op.called.name if op.called else op.name
                return Blame(said, op.origin, rule_line(op, module, of_values))
    except DlvmError:  # the error that is being explained matters more
        return None
    return None


def rule_line(op: Op, module: Module, of_values: bool) -> Origin | None:
    """The first line of a user's rule for an operation."""
    if not isinstance(op, Custom):
        return None
    rule = op.rule_of(of_values)
    written = (inner.origin for inner in module.function(rule.name).ops)
    return next((at for at in written if at is not None), None)


def is_surrogate(op: Op) -> bool:
    """Whether the derivative of an operation is meant to differ from its slope."""
    return isinstance(op, Custom) and op.surrogate


def surrogates(module: Module) -> tuple[Op, ...]:
    """The operations that a call may run whose derivatives are meant to differ from their slopes.

    Those that only other functions of the module run are none of it: each operation that is
    checked alone comes with the whole module.
    """
    return tuple(op for op in reached(module, module.main) if is_surrogate(op))


def varied(op: Op) -> tuple[int, ...]:
    """The operands that have a derivative rule; values that a user's rule captures have none."""
    if isinstance(op, Creation | Effect | Movement) or op.nondifferentiable:
        return ()
    if isinstance(op, Control) and op.ruled is None:
        return ()
    if not any(t.dtype.is_float for t in op.result_types):
        return ()
    operands = op.operands if op.ruled is None else op.ruled
    return tuple(i for i, v in enumerate(operands) if v.dtype.is_float)


def guilty_operation(
    declared: Module, arrays: Sequence[Array]
) -> tuple[Module, list[Array], Op, Law] | None:
    """The first operation whose own rule is wrong, with a program of it alone and its arguments."""
    wide = widened(declared)
    whole, given = arguments_of(wide, arrays)
    for d in wide.declarations:
        if d.name in given and (found := _guilty_in(d, whole, given[d.name])) is not None:
            return found
    return None


def _guilty_in(
    d: Declaration, module: Module, given: Sequence[Array]
) -> tuple[Module, list[Array], Op, Law] | None:
    primal = module.function(d.of)
    arrays = of_primal(d, module, given)
    for op, operands in operands_of(module, d.of, in_types_of(primal, arrays)).items():
        if op.called is not None or isinstance(op, Effect) or not op.operands:
            continue
        if (made := _declared(op, operands, d.kind)) is None:
            continue
        module, inputs = made
        try:
            expanded = expand(module)
        except UserError:
            continue
        if wrong(module.declarations[0], expanded, inputs) is not None:
            return module, inputs[: len(module.main.params)], op, rule_of(op, d.kind)
    return None


def _declared(op: Op, operands: Sequence[Array], kind: str) -> tuple[Module, list[Array]] | None:
    """A program of one operation with the declaration of its derivative, and arguments."""
    single = alone(op, operands)
    if single is None or len(single.main.results) < len(
        op.results
    ):  # an operation with a tape has none
        return None
    if kind == "batched":
        axes = tuple(0 for _ in operands)
        declaration = Declaration("batched", "derived", "main", axes=axes, size=2)
        return Module((single.main, declaration)), lanes_of(declaration, operands)
    wrt = tuple(i for i, p in enumerate(single.main.params) if p.dtype.is_float)
    if not wrt or not any(t.dtype.is_float for t in op.result_types):
        return None
    declaration = Declaration(kind, "derived", "main", wrt, seeded=kind == "adjoint")
    return Module((single.main, declaration)), list(operands)


def rule_of(op: Op, kind: str) -> Law:
    """The derivative rule of an operation's class."""
    tables = {"adjoint": ADJOINTS, "tangent": TANGENTS, "batched": BATCHED}
    table: Mapping[type[Op], Callable[..., Any]] = tables[kind]
    found = next((table[c] for c in type(op).__mro__ if c in table), None)
    if found is not None:
        return Law.of(found)
    if kind != "batched":
        return Law.of(type(op).adjoint)
    return Law.of(type(op).batched)
