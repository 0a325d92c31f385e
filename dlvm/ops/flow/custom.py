"""Calls whose derivative is not that of the callee, but what other functions of the module say.

Both mean the call itself, so whoever asks for no derivative sees a call and inlines it. What the
caller captures stands in ``captured``: all the functions take it last, and no derivative flows
to it. A ``surrogate`` is meant to differ from the slope of the callee, which tests must know.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm.base.errors import IRError, UserError
from dlvm.ir import FunctionRef, TensorType, Value
from dlvm.ir.core import Signature
from dlvm.ir.rewrite import types_of
from dlvm.ir.unify import unify

from .control import Call

Types = tuple[TensorType, ...]


def floats(types: Types) -> Types:
    """Those through which derivatives flow."""
    return tuple(t for t in types if t.dtype.is_float)


class CustomFields:
    """What their fields include; each class says where among its own."""

    surrogate: bool


class Custom(CustomFields, Call):
    """What calls with a derivative of their own have in common."""

    captured: tuple[Value, ...]

    @property
    def ruled(self) -> tuple[Value, ...]:
        """Those that are not captured."""
        return self.xs

    def rule_of(self, values: bool) -> FunctionRef:
        """The user's function that gives the derivatives, or the values that come with them."""
        raise IRError(f"{self.name} does not say which function is its rule")


class CustomVjp(Custom):
    """``callee(xs, captured)``, whose derivative in reverse is said by two functions.

    ``forward(xs, captured)`` gives the results, then residuals; ``backward(residuals, seeds,
    captured)`` takes a cotangent for each float result and gives one for each float of ``xs``.
    """

    name = "custom_vjp"
    forward: FunctionRef
    backward: FunctionRef
    surrogate: bool = False

    def rule_of(self, values: bool) -> FunctionRef:
        return self.forward if values else self.backward

    def misfit(self, signature: Callable[[str], Signature]) -> str | None:
        """Forward gives results and residuals, backward takes those and gives cotangents."""
        given, captured = types_of(self.operands), types_of(self.captured)
        found = _called(signature, self.forward, given)
        if isinstance(found, str):
            return found
        n = len(self.types)
        if found[:n] != self.types:
            return f"{self.forward} must first give {_listed(self.types)}, found {_listed(found)}"
        back = (*found[n:], *floats(self.types), *captured)
        return _gives(signature, self.backward, back, floats(types_of(self.xs)))


class CustomJvp(Custom):
    """``callee(xs, captured)``, whose directional derivative is said by a function.

    ``rule(xs, tangents, captured)`` takes a tangent for each float of ``xs``, in which it is
    linear; it gives the results, then a tangent for each float result.
    """

    name = "custom_jvp"
    rule: FunctionRef
    surrogate: bool = False

    def rule_of(self, values: bool) -> FunctionRef:
        return self.rule

    def misfit(self, signature: Callable[[str], Signature]) -> str | None:
        """The rule takes tangents too and gives tangents too."""
        xs = types_of(self.xs)
        given = (*xs, *floats(xs), *types_of(self.captured))
        return _gives(signature, self.rule, given, (*self.types, *floats(self.types)))


def _called(signature: Callable[[str], Signature], ref: FunctionRef, given: Types) -> Types | str:
    """What a function of the module gives on operands of these types, or why it can't."""
    try:
        found = signature(ref.name)
        sizes = unify(found.params, given)
    except UserError as error:
        return f"{ref}: {error.message}"
    return tuple(t.substitute(sizes) for t in found.results)


def _gives(
    signature: Callable[[str], Signature], ref: FunctionRef, given: Types, expected: Types
) -> str | None:
    found = _called(signature, ref, given)
    if isinstance(found, str) or found == expected:
        return found if isinstance(found, str) else None
    return f"{ref} must give {_listed(expected)}, found {_listed(found)}"


def _listed(types: Types) -> str:
    return ", ".join(map(str, types)) or "nothing"
