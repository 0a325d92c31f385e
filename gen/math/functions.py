"""The words that are functions of floats: which code each has, in any number of lanes.

Each is a polynomial of ours in the file of its family, right for NaN, infinities, zeros of either
sign and denormal numbers; ``docs/accuracy.md`` says how near each comes to the exact value.
"""

from __future__ import annotations

from collections.abc import Callable

from dlvm.gen.text.lanes import Lanes

from . import error_function, exponential, gamma, logarithm
from . import inverse_trigonometric as arcs
from . import trigonometric as circular

UNARY: dict[str, Callable[[Lanes, str], str]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "sinh": exponential.sinh,
    "cosh": exponential.cosh,
    "tanh": exponential.tanh,
    "log": logarithm.log,
    "log1p": logarithm.log1p,
    "log2": logarithm.log2,
    "log10": logarithm.log10,
    "sin": circular.sin,
    "cos": circular.cos,
    "tan": circular.tan,
    "asin": arcs.asin,
    "acos": arcs.acos,
    "atan": arcs.atan,
    "cbrt": arcs.cbrt,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "erfinv": error_function.erfinv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
}
BINARY: dict[str, Callable[[Lanes, str, str], str]] = {"pow": logarithm.pow}
