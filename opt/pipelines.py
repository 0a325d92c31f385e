"""The pipelines: tuples of passes that read aloud, and how a pass from outside comes into them.

Whoever compiles asks ``meaning``, ``kernels`` or ``default``, which hold the inserted passes too.
"""

from __future__ import annotations

from dlvm.base.errors import IRError, did_you_mean
from dlvm.opt.algebra.factors.choosing import choose_factors
from dlvm.opt.algebra.facts_into_regions import inform
from dlvm.opt.algebra.pieces.batching import batch_pieces
from dlvm.opt.algebra.pieces.joined_products import widen_products
from dlvm.opt.algebra.rearranging import rearrange
from dlvm.opt.kernels.fusion import fuse
from dlvm.opt.laws.markers import forget, pass_stops
from dlvm.opt.laws.overlaps import open_overlaps
from dlvm.opt.laws.simplification import fold_constants, simplify, simplify_finite
from dlvm.opt.laws.softmax import open_softmax
from dlvm.opt.parallel.factors import block_factors
from dlvm.opt.parallel.scans import cut_scans
from dlvm.opt.parallel.scatters import sort_scatters
from dlvm.opt.parallel.sorts import merge_sorts
from dlvm.opt.recompute.ordering import order
from dlvm.opt.recompute.weighing import weigh_recomputation
from dlvm.opt.regions.branches import propagate, select_branches
from dlvm.opt.regions.dropping import drop
from dlvm.opt.regions.hoisting import hoist
from dlvm.opt.regions.in_place_inputs import read_in_place
from dlvm.opt.regions.inlining import inline_calls, open_checkpoints, open_recompute
from dlvm.opt.regions.lowering import lower, open_solves
from dlvm.opt.regions.preparing import prepare
from dlvm.opt.regions.scan_inputs import deal
from dlvm.opt.regions.sharing import share
from dlvm.opt.regions.unrolling import unroll
from dlvm.passes import INSERTED, PASSES, Inserted, Pass, extended, register

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
    inform,
    simplify_finite,  # with what is known of matrices inside of loops
    rearrange,  # what loops repeat has left them, and nothing counts as used that is not
    choose_factors,  # after the laws of solves, which are the same for all factors
    open_solves,
    batch_pieces,
    widen_products,  # behind the orders of products, which would take wide ones apart
    forget,  # all laws that read assumptions have been tried
    propagate,  # again: bodies have shared, and what they do not use is gone
    simplify,
    fold_constants,
    share,
    prepare,  # behind the last law, so that what is kept is what kernels read
    drop,
)

KERNELS: tuple[Pass, ...] = (
    read_in_place,  # after the last law that looks at what loops run over
    unroll,  # after the last law, so that a step computes the same bits wherever it stands
    open_overlaps,  # after the law of convolutions, which looks for the sum
    open_softmax,  # after the last simplification: laws do not look into a fold
    drop,
    weigh_recomputation,  # nothing is shared after it, so recomputation may be opened
    open_checkpoints,
    fuse,  # recomputations are still closed, so that no kernel computes them too early
    open_recompute,
    order,
)

PARALLEL: tuple[Pass, ...] = (block_factors, sort_scatters, merge_sorts, cut_scans)
"""Before kernels are made for a GPU: what would be long loops of one thread."""

RANKS: tuple[Pass, ...] = (lower, share, drop)
"""Before kernels of a program of ranks: what depends on the rank becomes plain operations."""

DEFAULT: tuple[Pass, ...] = (*MEANING, *KERNELS)


def meaning() -> tuple[Pass, ...]:
    """``MEANING`` with the passes that were inserted."""
    return extended(MEANING)


def kernels(parallel: bool = False, ranks: bool = False) -> tuple[Pass, ...]:
    """``KERNELS`` with the passes that were inserted, behind ``PARALLEL`` where that is wanted, and
    ``RANKS`` for a program of ranks.
    """
    return extended((*(RANKS if ranks else ()), *(PARALLEL if parallel else ()), *KERNELS))


def default() -> tuple[Pass, ...]:
    """``DEFAULT`` with the passes that were inserted."""
    return extended(DEFAULT)


# -- passes from outside --------------------------------------------------------------------------


def insert(step: Pass, *, before: str = "", after: str = "") -> None:
    """Inserts a pass into every compilation from now on, next to a pass of ``DEFAULT``.

    The pass runs before or after *every* run of the one that is named. Functions that are compiled
    already keep their machine code, so insert before the first call.
    """
    if not isinstance(step, Pass):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IRError(
            f"insert: expected a pass, found {step!r}",
            remedy="decorate the function with @dlvm.passes.function_pass or module_pass",
        )
    if bool(before) == bool(after):
        raise IRError(
            f"insert: expected one place for {step.name!r}, found before={before!r} and "
            f"after={after!r}",
            remedy=f'write insert({step.name}, after="simplify")',
        )
    places = list(dict.fromkeys(known.name for known in DEFAULT))
    if (place := before or after) not in places:
        raise IRError(
            f"insert: there is no pass {place!r} in the pipeline; expected one of "
            f"{', '.join(places)}{did_you_mean(place, places)}"
        )
    if step.name in INSERTED:
        raise IRError(
            f"insert: {step.name!r} is in the pipeline already, {_place(INSERTED[step.name])}",
            remedy=f"remove({step.name}) first",
        )
    register(step)  # again where it had been removed
    INSERTED[step.name] = Inserted(step, before, after)


def remove(step: Pass) -> None:
    """Takes an inserted pass out of the pipelines, and its name out of the registry.

    A pass of the same name may then be registered, as when a cell of a notebook runs again, and
    this one may be inserted again.
    """
    if step.name not in INSERTED:
        raise IRError(
            f"remove: {step.name!r} was not inserted; found {', '.join(INSERTED) or 'no others'}"
        )
    del INSERTED[step.name], PASSES[step.name]


def _place(known: Inserted) -> str:
    return f"before {known.before}" if known.before else f"after {known.after}"
