"""Programs as users write them: nests of control flow under nested transformations.

A nest (``tests.ad.nests``) takes two vectors to one; so does every transformation here, whose order
is drawn. Half of them are traced for vectors of open length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dlvm
from dlvm.testing.drawing.dice import Dice
from tests.ad.nests import Fun, nest

from .case import Case

DEEPEST = 3
"""Loops in loops, and derivatives of derivatives: each doubles what is compiled."""


def gradient(f: Fun) -> Fun:
    """The gradient of the sum."""
    return dlvm.grad(lambda x, w: f(x, w).sum())


def pushed(f: Fun) -> Fun:
    """The tangent along the other vector."""
    return lambda x, w: dlvm.jvp(lambda x: f(x, w), (x,), (w,))[1]


def pulled(f: Fun) -> Fun:
    """The cotangent of the other vector, with the value."""

    def run(x: Any, w: Any) -> Any:
        y, back = dlvm.vjp(lambda x: f(x, w), x)
        (dx,) = back(w)
        return y * 0.5 + dx

    return run


def linear(f: Fun) -> Fun:
    """The linear map at a point, used twice."""

    def run(x: Any, w: Any) -> Any:
        y, along = dlvm.linearize(lambda x: f(x, w), x)
        return y + along(w) - along(x)

    return run


def lanes(f: Fun) -> Fun:
    """Several vectors at once, whose results are added."""
    batch = dlvm.vmap(f, in_axes=(0, None))
    return lambda x, w: batch(dlvm.stack([x, -x, w]), w).sum(axis=0)


def columns(f: Fun) -> Fun:
    """The batch lies along the last axis, of both vectors."""
    batch = dlvm.vmap(f, in_axes=(1, 1), out_axes=1)
    return lambda x, w: batch(dlvm.stack([x, w], axis=1), dlvm.stack([w, x], axis=1)).sum(axis=1)


def steps(f: Fun) -> Fun:
    """A scan whose step is the function."""

    def run(x: Any, w: Any) -> Any:
        def step(carry: Any, a: Any) -> Any:
            return f(carry, a) * 0.5, carry.sum()

        last, sums = dlvm.scan(step, x, dlvm.stack([w, x]))
        return last + sums.sum()

    return run


def kept(f: Fun) -> Fun:
    """A checkpoint, which computes again on the way back."""
    return dlvm.checkpoint(f)


def ruled(f: Fun) -> Fun:
    """A function with a backward rule of its own, which says twice the derivative."""

    def forward(x: Any, w: Any) -> Any:
        return f(x, w), (x, w)

    def backward(kept: Any, dy: Any) -> Any:
        _, back = dlvm.vjp(f, *kept)
        return tuple(2.0 * d for d in back(dy))

    own = dlvm.custom_vjp(f)
    own.defvjp(forward, backward)
    return own


def tangent_ruled(f: Fun) -> Fun:
    """A function with a tangent rule of its own."""

    def rule(primals: Any, tangents: Any) -> Any:
        y, dy = dlvm.jvp(f, primals, tangents)
        return y, 0.5 * dy

    own = dlvm.custom_jvp(f)
    own.defjvp(rule)
    return own


AROUND: tuple[Callable[[Fun], Fun], ...] = (
    *(gradient, pushed, pulled, linear, lanes, columns),
    *(steps, kept, ruled, tangent_ruled),
)


def staged(dice: Dice) -> Case:
    """A nest under up to three transformations, of open or known length."""
    f = nest(dice.integer(0, 1 << 20), dice.integer(1, 2))
    for _ in range(dice.integer(0, DEEPEST)):
        f = dice.choose(AROUND)(f)
    size = dice.integer(3, 6) if dice.integer(0, 1) else 3
    given = dlvm.spec("f64[N]" if size > 3 else "f64[3]")
    module = dlvm.trace(f, given, given)
    sizes = {"N": size} if size > 3 else {}
    return Case(module, module.main.name, sizes, dice.integer(0, 1 << 16))
