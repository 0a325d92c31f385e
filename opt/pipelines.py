"""The pipelines: tuples of passes that read aloud."""

from __future__ import annotations

from dlvm.opt.kernels.fusion import fuse
from dlvm.opt.laws.markers import pass_stops
from dlvm.opt.laws.simplification import fold_constants, simplify
from dlvm.opt.laws.softmax import open_softmax
from dlvm.opt.recompute.ordering import order
from dlvm.opt.recompute.weighing import weigh_recomputation
from dlvm.opt.regions.branches import propagate, select_branches
from dlvm.opt.regions.dropping import drop
from dlvm.opt.regions.hoisting import hoist
from dlvm.opt.regions.inlining import inline_calls, open_checkpoints, open_recompute
from dlvm.opt.regions.lowering import lower
from dlvm.opt.regions.scan_inputs import deal
from dlvm.opt.regions.sharing import share
from dlvm.opt.regions.unrolling import unroll
from dlvm.passes import Pass

MEANING: tuple[Pass, ...] = (
    inline_calls,
    lower,  # before every law, so that laws see the operations of a lowering
    pass_stops,
    simplify,
    fold_constants,
    propagate,  # after folding, so that more is known to carry into regions
    select_branches,
    share,  # before hoisting, which would otherwise move twins side by side
    hoist,
    deal,
    drop,
    propagate,  # again: bodies have shared, and what they do not use is gone
    simplify,
    fold_constants,
    share,
    drop,
)

KERNELS: tuple[Pass, ...] = (
    unroll,  # after the last law, so that a step computes the same bits wherever it stands
    open_softmax,  # after the last simplification: laws do not look into a fold
    drop,
    weigh_recomputation,  # nothing is shared after it, so recomputation may be opened
    open_checkpoints,
    fuse,  # recomputations are still closed, so that no kernel computes them too early
    open_recompute,
    order,
)

DEFAULT: tuple[Pass, ...] = (*MEANING, *KERNELS)
