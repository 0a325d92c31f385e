"""Chooses the order in which operands are contracted, two at a time, in the least time.

What a pair takes is what ``dlvm.cost`` says of any product, so that the optimiser, which orders
chains once more with what it knows of their factors, agrees.

Of up to eight operands the best order is found by dynamic programming over their subsets;
of more, the pair whose product needs the least memory beyond its operands goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from dlvm.cost import Work, product_work
from dlvm.ir import F64

Pair = tuple[int, int]
EXHAUSTIVE = 8


def pairs(
    terms: Sequence[frozenset[str]], output: frozenset[str], sizes: Mapping[str, int]
) -> list[Pair]:
    """The pairs to contract in order; each product gets the next number."""
    bit = {label: 1 << i for i, label in enumerate(sizes)}
    masks = [sum(bit[label] for label in term) for term in terms]

    @cache
    def volume(mask: int) -> int:
        total = 1
        for label, b in bit.items():
            total *= sizes[label] if mask & b else 1
        return total

    wanted = sum(bit[label] for label in output)
    order = best if len(terms) <= EXHAUSTIVE else greedy
    return order(masks, wanted, volume)


def price(one: int, other: int, kept: int, volume: Callable[[int], int]) -> int:
    """The time of the batched matrix product that a pair becomes, as for any other product."""
    both, rows, columns = one & other, one & ~other & kept, other & ~one & kept
    inner = (one | other) & ~kept
    if not inner:
        elements = volume(one | other)
        return Work(elements, elements * F64.bytes).time
    return product_work(F64, volume(both & kept), volume(rows), volume(inner), volume(columns)).time


def best(masks: Sequence[int], wanted: int, volume: Callable[[int], int]) -> list[Pair]:
    """The order of least time, by the best order of each subset."""
    count = len(masks)
    full = (1 << count) - 1
    union = [0] * (full + 1)
    for s in range(1, full + 1):
        low = s & -s
        union[s] = union[s ^ low] | masks[low.bit_length() - 1]
    kept = [union[s] & (wanted | union[full ^ s]) for s in range(full + 1)]
    cost, cut = [0] * (full + 1), [0] * (full + 1)
    for s in range(1, full + 1):
        options: list[tuple[int, int]] = []
        part = (s - 1) & s
        while part:
            if part & s & -s:  # of two complementary parts the one with the first operand
                rest = s ^ part
                here = price(kept[part], kept[rest], kept[s], volume)
                options.append((cost[part] + cost[rest] + here, part))
            part = (part - 1) & s
        cost[s], cut[s] = min(options, default=(0, 0))
    return _in_turn(full, cut, count)


def _in_turn(full: int, cut: Sequence[int], count: int) -> list[Pair]:
    """The splits of subsets as pairs of numbers, in the order of contraction."""
    number: dict[int, int] = {1 << i: i for i in range(count)}
    pending, order = [full], list[Pair]()
    while pending:
        s = pending[-1]
        parts = [p for p in (cut[s], s ^ cut[s]) if cut[s] and p not in number]
        if parts:
            pending += parts
            continue
        pending.pop()
        if s not in number:
            order.append((number[cut[s]], number[s ^ cut[s]]))
            number[s] = count + len(order) - 1
    return order


def greedy(masks: Sequence[int], wanted: int, volume: Callable[[int], int]) -> list[Pair]:
    """The pairs in greedy order: smallest growth first, pairs that share a label before others."""
    left = dict(enumerate(masks))
    order: list[Pair] = []
    while len(left) > 1:
        ranked: list[tuple[bool, int, Pair, int]] = []
        for i in left:
            for j in left:
                if i < j:
                    kept = _kept(left, wanted, i, j)
                    growth = volume(kept) - volume(left[i]) - volume(left[j])
                    ranked.append((not left[i] & left[j], growth, (i, j), kept))
        _, _, (i, j), kept = min(ranked)
        del left[i], left[j]
        left[len(masks) + len(order)] = kept
        order.append((i, j))
    return order


def _kept(left: Mapping[int, int], wanted: int, i: int, j: int) -> int:
    """The labels of a pair that the result or another operand has."""
    for k, mask in left.items():
        wanted |= mask if k not in (i, j) else 0
    return (left[i] | left[j]) & wanted
