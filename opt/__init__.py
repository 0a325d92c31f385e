"""The optimiser: passes from IR to better IR, and the pipelines that are made of them."""

from dlvm.opt.algebra.rearranging import rearrange
from dlvm.opt.kernels.fusion import fuse
from dlvm.opt.laws.markers import pass_stops
from dlvm.opt.laws.simplification import fold_constants, simplify, simplify_finite
from dlvm.opt.laws.softmax import open_softmax
from dlvm.opt.recompute.ordering import order
from dlvm.opt.recompute.weighing import weigh_recomputation
from dlvm.opt.regions.branches import propagate, select_branches
from dlvm.opt.regions.dropping import drop
from dlvm.opt.regions.hoisting import hoist
from dlvm.opt.regions.in_place_inputs import read_in_place
from dlvm.opt.regions.inlining import (
    inline_calls,
    inline_kernels,
    keep_reachable,
    open_checkpoints,
    open_recompute,
)
from dlvm.opt.regions.scan_inputs import deal
from dlvm.opt.regions.sharing import share
from dlvm.opt.regions.unrolling import unroll

from .pipelines import DEFAULT, KERNELS, MEANING

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
    "read_in_place",
    "rearrange",
    "select_branches",
    "share",
    "simplify",
    "simplify_finite",
    "unroll",
    "weigh_recomputation",
]
