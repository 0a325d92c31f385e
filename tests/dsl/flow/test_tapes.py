"""What unbounded loops keep for their way back, where a user can tell."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm


@pytest.mark.parametrize("stage", [lambda f: f, dlvm.function], ids=["plain", "staged"])
def test_what_nobody_asks_of_a_tape_has_zeros_for_cotangents(stage):
    """Of the way back of a loop only the tangent is asked for; its tape is dropped full."""

    def settled(x):
        return dlvm.while_loop(lambda c: c[0] < 3 * c[2], _sines, (0.0, x, x))[1]

    ruled = dlvm.custom_vjp(settled)
    ruled.defvjp(lambda x: (settled(x), x), lambda x, ct: dlvm.vjp(settled, x)[1](ct))
    points = np.array([0.1, 0.5, 1.0, 2.0])

    def second(f):
        return dlvm.grad(lambda x: dlvm.jvp(f, (x,), (2.0,))[1])

    expected = [dlvm.function(second(settled))(x) for x in points]
    assert np.allclose([stage(second(ruled))(x) for x in points], expected)
    assert np.allclose(stage(dlvm.vmap(second(ruled)))(points), expected)
    slopes = dlvm.linearize(second(ruled), points[1])[1](1.0)
    assert np.allclose(slopes, stage(dlvm.grad(second(settled)))(points[1]))


def _sines(c):
    return c[0] + 1, dlvm.sin(c[1]), c[2]
