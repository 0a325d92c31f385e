"""Faults planted in rules, masks and the order of exchanges: the random programs see each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dlvm import ops
from dlvm.base.errors import DlvmError
from dlvm.ir import Array, Op
from dlvm.ir.sharding.factors import Factors, all_of
from dlvm.ops.arrays.indexing import Scatter
from dlvm.ops.flow import collectives
from dlvm.ops.flow.ranked import MaskShard
from dlvm.opt.sharding import moves, packing, partition

from .programs import SHAPES, drawn
from .simulated import assert_as_on_one_device
from .test_rules import compared, programs

Plant = Callable[[pytest.MonkeyPatch], None]
MOST = 60
FAULTS: dict[str, tuple[Plant, Callable[[int], None]]] = {}


def fault(*shapes: str, alone: type[Op] | None = None) -> Callable[[Plant], Plant]:
    """Register a fault, and what sees it: programs on these meshes, or an operation alone."""

    def whole(seed: int) -> None:
        program = drawn(seed, shapes or SHAPES, most=16)
        assert_as_on_one_device(program.ranks(), program.arrays, program.want)

    def single(seed: int) -> None:
        for rng, program in programs(alone or Op, [seed]):
            compared(rng, program)

    def register(plant: Plant) -> Plant:
        FAULTS[plant.__name__] = (plant, single if alone else whole)
        return plant

    return register


def changed(cls: type[Any], **fields: Any) -> Plant:
    """The rule of a class says something else."""
    own = cls.factors

    def factors(op: Any) -> Factors:
        return replace(own(op), **fields)

    return lambda m: m.setattr(cls, "factors", factors)


@fault()
def a_mask_is_left_out(m: pytest.MonkeyPatch) -> None:
    own = partition._Writer._masked  # type: ignore[reportPrivateUsage]

    def masked(self: Any, x: Any, of: Any, i: int, rule: Factors, chosen: Any) -> Any:
        return own(self, x, of, i, replace(rule, fills=(None,) * len(rule.fills)), chosen)

    m.setattr(partition._Writer, "_masked", masked)  # type: ignore[reportPrivateUsage]


@fault()
def sums_are_joined_by_the_largest(m: pytest.MonkeyPatch) -> None:
    m.setattr(ops.Sum, "joined", "max")


@fault("a=2,b=2,c=2")
def a_permutation_is_inverted(m: pytest.MonkeyPatch) -> None:
    own = moves._sources  # type: ignore[reportPrivateUsage]
    m.setattr(moves, "_sources", lambda *given: tuple(map(int, np.argsort(own(*given)))))


@fault()
def running_sums_are_cut_along_their_axis(m: pytest.MonkeyPatch) -> None:
    def factors(op: ops.Running) -> Factors:
        every = all_of(op.operands[0].type.rank)
        return Factors((every,) * len(op.operands), (every,))

    m.setattr(ops.Running, "factors", factors)


@fault()
def rows_are_sorted_in_pieces(m: pytest.MonkeyPatch) -> None:
    def factors(op: ops.Sort) -> Factors:
        every = all_of(op.operands[0].type.rank)
        return Factors((every,), (every,) * len(op.result_types))

    m.setattr(ops.Sort, "factors", factors)


@fault()
def what_is_gathered_is_not_cut_to_its_size(m: pytest.MonkeyPatch) -> None:
    def meet(op: collectives.AllGather, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        return [np.concatenate(xs, op.dims[i])] * len(xs)

    m.setattr(collectives.AllGather, "meet", meet)


@fault(alone=ops.Reshape)
def reshaped_axes_are_cut_though_uneven(m: pytest.MonkeyPatch) -> None:
    changed(ops.Reshape, even=frozenset[int]())(m)


@fault()
def a_sum_is_cut_along_another_axis(m: pytest.MonkeyPatch) -> None:
    own = collectives.ReduceScatter.meet

    def meet(op: Any, i: int, xs: Sequence[Array]) -> Sequence[Array]:
        if xs[0].ndim == 2 and xs[0].shape[0] == xs[0].shape[1]:
            return [p.T for p in own(op, i, [x.T for x in xs])]
        return own(op, i, xs)[::-1]

    m.setattr(collectives.ReduceScatter, "meet", meet)


@fault()
def exchanges_along_different_axes_are_packed(m: pytest.MonkeyPatch) -> None:
    m.setattr(packing, "_key", lambda op: (type(op), op.xs[0].dtype))


@fault()
def packed_results_are_mixed(m: pytest.MonkeyPatch) -> None:
    own = collectives.Collective.reference_of_ranks

    def mixed(op: Any, pieces: Any) -> Any:
        alike = len({t for t in op.result_types}) == 1
        return [found[::-1] if alike else found for found in own(op, pieces)]

    m.setattr(collectives.Collective, "reference_of_ranks", mixed)


@fault()
def each_rank_counts_the_start_of_a_scatter(m: pytest.MonkeyPatch) -> None:
    changed(Scatter, start=None)(m)


@fault()
def indices_beyond_the_end_are_not_cleared(m: pytest.MonkeyPatch) -> None:
    changed(ops.Gather, cleared=())(m)
    changed(Scatter, cleared=())(m)


@fault(alone=ops.LogSumExp)
def what_is_folded_is_filled_with_zeros(m: pytest.MonkeyPatch) -> None:
    own = ops.Reduction.factors

    def factors(op: ops.Reduction) -> Factors:
        rule = own(op)
        return replace(rule, fills=(0,) * len(rule.fills))

    m.setattr(ops.Reduction, "factors", factors)


@fault()
def all_to_all_gives_pieces_in_reverse(m: pytest.MonkeyPatch) -> None:
    own = collectives.AllToAll.meet
    m.setattr(collectives.AllToAll, "meet", lambda op, i, xs: own(op, i, xs)[::-1])


@fault()
def the_last_element_is_masked(m: pytest.MonkeyPatch) -> None:
    def of_index(op: MaskShard, index: int, *operands: Array) -> Array:
        x, fill = operands
        local = x.shape[op.axis]
        keep = np.arange(local) + index * local + 1 < int(op.full)
        return np.where(keep.reshape([-1] + [1] * (x.ndim - 1 - op.axis)), x, fill)

    m.setattr(MaskShard, "of_index", of_index)


def seen_after(judge: Callable[[int], None]) -> int | None:
    """How many programs it takes until one does not give what one device gives."""
    for seed in range(MOST):
        try:
            judge(seed)
        except (AssertionError, DlvmError, ValueError):
            return seed + 1
    return None


@pytest.mark.parametrize("name", FAULTS)
def test_it_is_seen(name: str, monkeypatch: pytest.MonkeyPatch):
    plant, judge = FAULTS[name]
    plant(monkeypatch)
    assert seen_after(judge)


@pytest.mark.parametrize("cls", [ops.Reshape, ops.LogSumExp])
def test_without_a_fault_nothing_is_seen(cls: type[Op]):
    for rng, program in programs(cls, range(MOST)):
        compared(rng, program)
