"""Special functions of each element: error and gamma functions.

docs/accuracy.md says how near their machine code comes to the exact values.
"""

from __future__ import annotations

import math

from dlvm.ir import Value

from .transcendental import Curve, Exp


class Erf(Curve):
    """Error function ``2/sqrt(pi) * integral of e**(-t*t) from 0 to x``."""

    name = "erf"
    x: Value

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (Exp(-(self.x * self.x)) * (2 / math.sqrt(math.pi))),)


class Erfc(Curve):
    """Complement ``1 - erf(x)`` of the error function, with all digits where that is small."""

    name = "erfc"
    ulp = 4.0
    x: Value

    def adjoint(self, *dy: Value) -> tuple[Value | None, ...]:
        return (dy[0] * (Exp(-(self.x * self.x)) * (-2 / math.sqrt(math.pi))),)
