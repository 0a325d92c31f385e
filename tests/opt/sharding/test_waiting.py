"""Ranks that wait for a rank that never comes end with an error, and not never."""

from __future__ import annotations

import numpy as np
import pytest

from dlvm.base.errors import IRError
from dlvm.ir import F64, Param, TensorType
from dlvm.ir.sharding.mesh import Mesh
from dlvm.ir.sharding.ranks import World, exchange
from dlvm.ops.flow.collectives import AllGather, AllReduce

X = Param(TensorType(F64, (1,)), "x")
ONE = np.ones(1)


def of(*axes: str) -> AllReduce:
    return AllReduce(axes, "a=2,b=2", (X,))


def test_a_rank_that_leaves_an_exchange_out_is_noticed():
    def work(rank: int):
        return exchange(of("a", "b"), (ONE,)) if rank else ()

    with pytest.raises(IRError, match="wait for others that never come: rank"):
        World(Mesh.named("a=2,b=2")).run(work)


def test_exchanges_in_another_order_are_noticed():
    def work(rank: int):
        first, second = (of("a"), of("b")) if rank in (0, 3) else (of("b"), of("a"))
        return exchange(second, exchange(first, (ONE,)))

    with pytest.raises(IRError, match="wait for others that never come"):
        World(Mesh.named("a=2,b=2")).run(work)


def test_different_exchanges_do_not_meet():
    def work(rank: int):
        op = AllGather(("a",), "a=2", (X,), (0,), (2,)) if rank else AllReduce(("a",), "a=2", (X,))
        return exchange(op, (ONE,))

    with pytest.raises(IRError, match="different exchanges: AllGather, AllReduce"):
        World(Mesh.named("a=2")).run(work)


def test_the_error_is_that_of_the_rank_that_had_it():
    def work(rank: int):
        if rank == 1:
            raise ZeroDivisionError("of rank 1")
        try:
            return exchange(of("a", "b"), (ONE,))
        except Exception as error:  # as an interpreter does, to say what it ran
            raise IRError("the exchange failed") from error

    with pytest.raises(ZeroDivisionError, match="of rank 1"):
        World(Mesh.named("a=2,b=2")).run(work)
