"""The optimiser: passes from IR to better IR, and the pipelines that are made of them."""

from .branches import propagate, select_branches
from .dealing import deal
from .dropping import drop
from .fusion import fuse
from .hoisting import hoist
from .inlining import (
    inline_calls,
    inline_kernels,
    keep_reachable,
    open_checkpoints,
    open_recompute,
)
from .ordering import order
from .pipelines import DEFAULT, KERNELS, MEANING
from .sharing import share
from .simplification import fold_constants, simplify
from .softmax import open_softmax
from .stops import pass_stops
from .unrolling import unroll
from .weighing import weigh_recomputation

__all__ = [
    "DEFAULT",
    "KERNELS",
    "MEANING",
    "deal",
    "drop",
    "fold_constants",
    "fuse",
    "hoist",
    "inline_calls",
    "inline_kernels",
    "keep_reachable",
    "open_checkpoints",
    "open_recompute",
    "open_softmax",
    "order",
    "pass_stops",
    "propagate",
    "select_branches",
    "share",
    "simplify",
    "unroll",
    "weigh_recomputation",
]
