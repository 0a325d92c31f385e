"""The results of a gradient check: a report, or an error that says what is wrong.

This module has records and their text; nothing here computes a derivative.
"""

from __future__ import annotations

from dataclasses import dataclass

from dlvm.base.errors import Origin, UserError
from dlvm.trust.rules import Blame

METHOD = "central differences, extrapolated (Richardson), in f64"


def ordinal(order: int) -> str:
    """``the gradient`` for 1, and the derivative that an order means for others."""
    names = {1: "the gradient", 2: "the second derivative", 3: "the third derivative"}
    return names.get(order, f"the derivative of order {order}")


@dataclass(frozen=True)
class Kink:
    """An element with two slopes or none, at which the gradient has an allowed value."""

    element: str
    order: int
    left: float
    right: float
    found: float

    @property
    def jump(self) -> bool:
        """Whether the function itself jumps, and has no slope at all."""
        return self.left != self.left

    def __str__(self) -> str:
        if self.jump:
            return f"{self.element}: a jump, {self.found:.6g} found"
        return f"{self.element}: {self.left:.6g} to the left, {self.right:.6g} to the right, " + (
            f"{self.found:.6g} by convention"
        )


@dataclass(frozen=True)
class Checked:
    """One argument at one order; ``max_error`` is relative to the largest of its derivatives.

    ``unchecked`` elements have derivatives that are lost in rounding, or lie at the border of
    where the function is defined.
    """

    argument: str
    order: int
    elements: int
    checked: int
    unchecked: int
    max_error: float
    kinks: tuple[Kink, ...] = ()

    @property
    def seen(self) -> bool:
        """Whether a mistake in some element would have been noticed."""
        return self.checked > 0 or any(not k.jump for k in self.kinks)


@dataclass(frozen=True)
class Identity:
    """Two numbers that are equal in theory: their distance, and the allowed distance."""

    law: str
    order: int
    apart: float
    allowed: float


@dataclass(frozen=True)
class Report:
    """The report of a gradient check: each argument at each order, and how well it agreed."""

    name: str
    orders: tuple[int, ...]
    arguments: tuple[Checked, ...]
    identities: tuple[Identity, ...]
    compiled: bool
    method: str = METHOD
    sampled: bool = False
    """Whether random directions were checked in the place of elements."""
    surrogates: tuple[str, ...] = ()
    """Functions whose derivatives are meant to differ, and which were not compared."""

    @property
    def max_error(self) -> float:
        """The largest relative error of any derivative."""
        return max((c.max_error for c in self.arguments), default=0.0)

    @property
    def kinks(self) -> tuple[Kink, ...]:
        """Elements at which there is more than one slope, or none."""
        return tuple(k for c in self.arguments for k in c.kinks)

    def __str__(self) -> str:
        ways = "references and machine code" if self.compiled else "references"
        ways = "machine code" if self.sampled else ways
        lines = [f"{self.name}: derivatives to order {max(self.orders)} are right, by {ways}"]
        for c in self.arguments:
            what = "random directions" if self.sampled else "elements"
            said = f"  order {c.order}  {c.argument}: {c.checked} of {c.elements} {what} checked"
            said += f", largest error {c.max_error:.1e}"
            said += f", {c.unchecked} not checked" if c.unchecked else ""
            lines.append(said + (f", {len(c.kinks)} at kinks" if c.kinks else ""))
        if self.surrogates:
            which = ", ".join(self.surrogates)
            lines.append(f"  every operation alone, but for surrogate derivatives: {which}")
        lines += [f"  kink  {k}" for k in self.kinks[:4]]
        for i in self.identities:
            lines.append(f"  order {i.order}  {i.law}: apart by {i.apart:.1e} of {i.allowed:.1e}")
        return "\n".join(lines)


@dataclass(frozen=True)
class Fault:
    """One wrong derivative: its place, both numbers, the error of the second, and a
    likely cause.
    """

    argument: str
    element: str
    order: int
    mode: str
    found: float
    expected: float
    error: float
    cause: str = ""
    wrong: int = 1
    of: int = 1
    kinked: tuple[float, float] | None = None

    @property
    def of_values(self) -> bool:
        """Whether the wrong number is the value that a rule returns beside the derivative."""
        return self.mode.startswith("value")


class GradientError(UserError):
    """Raised for a wrong derivative; ``fault`` holds the numbers."""

    code = "gradient"

    def __init__(
        self,
        message: str,
        *,
        origin: Origin | None = None,
        remedy: str | None = None,
        notes: tuple[str, ...] = (),
        fault: Fault | None = None,
    ) -> None:
        super().__init__(message, origin=origin, remedy=remedy, notes=notes)
        self.fault = fault

    def located(self, origin: Origin | None, *notes: str) -> GradientError:
        """Returns the error itself; its line is that of the guilty operation, if one is known."""
        return self


def error_of(name: str, fault: Fault, blame: Blame | None) -> GradientError:
    """The error for a fault."""
    by = "by the function" if fault.of_values else "by differences"
    expected = f"{fault.expected:.9g} ± {fault.error:.1g} {by}"
    if fault.kinked is not None:
        expected = "a kink where the slopes are {:.9g} and {:.9g}".format(*fault.kinked)
    notes = [f"{fault.element}: found {fault.found:.9g}, {expected}"]
    if fault.wrong > 1:
        notes.append(f"wrong in {fault.wrong} of the {fault.of} elements looked at")
    if fault.cause:
        notes.append(f"likely cause: {fault.cause}")
    if blame is not None:
        at = f", written at {blame.rule}," if blame.rule else ""
        what = "value in the rule" if fault.of_values else "derivative"
        notes.append(f"the {what} of {blame.op}{at} is wrong by itself")
    said = f"{ordinal(fault.order)} of {name} with respect to {fault.argument} is wrong"
    if fault.of_values:
        said = f"{ordinal(fault.order)} of {name} comes with a wrong value of {fault.argument}"
    return GradientError(
        f"{said} ({fault.mode})",
        origin=blame.origin if blame else None,
        notes=tuple(notes),
        fault=fault,
        remedy="fix the rule of that operation and check again"
        if blame
        else "check the parts of the function one by one, beginning with rules of your own",
    )
