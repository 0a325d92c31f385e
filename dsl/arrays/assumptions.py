"""What users know of their matrices."""

from __future__ import annotations

from typing import Any

from dlvm.base.errors import ArgumentError, ShapeError
from dlvm.dsl.trace.facing import facing_users
from dlvm.dsl.trace.operands import fresh, shape_of, staged
from dlvm.dsl.trace.scopes import current, user_origin
from dlvm.ir.properties import IMPLIED, SQUARE
from dlvm.ops import Assume


@facing_users
def assume(x: Any, *properties: str) -> Any:
    """The matrix itself, of which the compiler may suppose these properties.

    They are ``"symmetric"``, ``"psd"`` (positive semidefinite), ``"spd"`` (positive definite),
    ``"lower"`` and ``"upper"`` (triangular), ``"diagonal"``, ``"orthogonal"``, ``"identity"`` and
    ``"nonnegative"`` (every element); leading axes are batches::

        a = dlvm.assume(a, "symmetric")
        dlvm.grad(lambda x: 0.5 * x @ a @ x)(x)  # one product with a

    For derivatives it is the identity: a gradient with respect to a symmetric matrix need not be
    symmetric. A statement that is false may give any numbers; ``dlvm.debug(assumptions=True)``
    checks what is stated. Outside of staged functions nothing is supposed.
    """
    for word in properties:
        if word not in IMPLIED:
            raise ArgumentError(
                f"assume: {word!r:.40}: there is no such property",
                origin=user_origin(),
                remedy=f"name one or more of {', '.join(IMPLIED)}",
            )
    shape = shape_of(x)
    square = len(shape) > 1 and shape[-1] == shape[-2]
    if not square and (wanted := [p for p in properties if p in SQUARE]):
        raise ShapeError(
            f"assume: expected square matrices for {wanted[0]!r}, found the shape {shape}",
            origin=user_origin(),
            remedy="leave the property out",
        )
    if current() is None:
        return x
    given = staged(x)
    value = given.read()
    for word in properties:
        value = Assume(value, word)
    return fresh(value, given.weak)
