"""The optimiser: passes from IR to better IR, and the pipelines that are made of them."""

from .branches import propagate, select_branches
from .dropping import drop
from .hoisting import hoist
from .inlining import inline_calls, inline_kernels, keep_reachable, open_recompute
from .sharing import share
from .simplification import fold_constants, simplify

__all__ = [
    "drop",
    "fold_constants",
    "hoist",
    "inline_calls",
    "inline_kernels",
    "keep_reachable",
    "open_recompute",
    "propagate",
    "select_branches",
    "share",
    "simplify",
]
