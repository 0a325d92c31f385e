"""The pass that applies laws of linear algebra where they pay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from dlvm.ir import RULES, Builder, Function, Op, Value
from dlvm.ir.decisions import may_replace
from dlvm.ir.numerics import LICENSED, Mode, current_mode
from dlvm.ir.rewrite import Env, applied, followed, rebuilt, renewed
from dlvm.ops import Add, Sub
from dlvm.ops.families import Contraction
from dlvm.opt.algebra.factors.chains import cheapest_order, everything, nothing, reordered
from dlvm.opt.algebra.factors.products import Factor, MayTakeApart, flat
from dlvm.opt.facts import needed
from dlvm.passes import finite_function_pass

from .ledger import Ledger, Proposal

ROUNDS = 6
"""How often a function is gone through at most."""
Laws = dict[type[Op], list[Callable[[Op], Value | None]]]
Proposer = tuple[Callable[..., Value | None], Callable[[Op], Value | None]]
"""A law, under which a change is told, and what it makes of an operation."""


@finite_function_pass
def rearrange(fn: Function) -> Function:
    """Apply the weighed laws, those of linear algebra, where the result is cheaper.

    Every law that applies to an operation proposes a value in its place. The price of a proposal
    counts what it adds and what nobody uses after it; the one that saves most is taken, and what
    it is made of is looked at in its turn. Each step lowers the cost, so there is an end.
    """
    laws = _laws(current_mode())
    inner = False
    for _ in range(ROUNDS):
        before, fn = fn, _round(fn, laws, inner)
        if fn is before:
            if inner:
                break
            inner = True
    return fn


def _round(fn: Function, laws: Laws, inner: bool) -> Function:
    """Looks at every operation once; where users went later, another round may find more.

    Products that are parts of longer ones, and sums that are multiplied, wait for ``inner``: the
    longer product may need others.
    """
    if fn.kinds.isdisjoint(laws):
        return fn
    wanted = needed(fn)  # a use by what nobody needs would keep a product alive
    ops = [op for op in fn.ops if op in wanted]
    ledger, env = Ledger(ops, fn.results), dict[Value, Value]()
    with Builder():  # which takes what is only tried
        kept = _rearranged(ops, ledger, env, laws, inner)
    if not env:
        return fn
    staying = [op for op in kept if op not in ledger.idle]
    return rebuilt(fn, staying, [followed(r, env) for r in fn.results])


def _rearranged(ops: Iterable[Op], ledger: Ledger, env: Env, laws: Laws, inner: bool) -> list[Op]:
    """The operations after every proposal that pays; ``env`` says what they replace."""
    kept: list[Op] = []
    for first in ops:
        pending = [first]
        while pending:
            op = _followed(pending.pop(), env, ledger)
            waits = not inner and isinstance(op, Contraction | Add | Sub) and ledger.inside(op)
            chosen = None if waits else _best(ledger, op, laws)
            if chosen is None:
                ledger.keep(op)
                kept.append(op)
                continue
            ledger.accept(op, chosen)
            env[op] = chosen.value
            pending.extend(reversed(chosen.ops))
    return kept


def _followed(op: Op, env: Env, ledger: Ledger) -> Op:
    """The operation on what its operands have become."""
    if env.keys().isdisjoint(op.operands):
        return op
    new = renewed(op, {v: followed(v, env) for v in op.operands})
    env.update(zip(op.results, new.results, strict=True))
    ledger.renew(op, new)
    return new


def _laws(mode: Mode) -> Laws:
    """The weighed laws that a mode licenses, by the class of the operation that they replace."""
    licensed = LICENSED[mode]
    every = {
        kind: [r.apply for r in rules if r.weighed and r.law_class in licensed]
        for kind, rules in RULES.items()
    }
    return {kind: laws for kind, laws in every.items() if laws}


def _best(ledger: Ledger, op: Op, laws: Laws) -> Proposal | None:
    """The proposal that saves most, if it may be carried out; of equals, that of the first law."""
    found: list[tuple[Callable[..., Value | None], Proposal]] = []
    for law, make in _proposers(op, ledger, laws):
        proposal = ledger.propose(op, make)
        if proposal is not None and proposal.pays:
            found.append((law, proposal))
    for law, best in sorted(found, key=lambda pair: -pair[1].gain):
        if may_replace(law, op, (best.value,), f"saves {best.saved}"):
            return best
    return None


def _proposers(op: Op, ledger: Ledger, laws: Laws) -> Iterator[Proposer]:
    """Every law for the operation; last the order of a product, in each way of taking it apart."""
    found = laws.get(type(op), ())
    yield from ((law, partial(applied, law)) for law in found if law is not cheapest_order)
    if isinstance(op, Contraction) and cheapest_order in found:
        for opened in _ways(op, ledger):
            yield cheapest_order, partial(reordered, opened=opened)


def _ways(op: Contraction, ledger: Ledger) -> list[MayTakeApart]:
    """To take everything apart, to leave what others use, and to leave all: those that differ."""
    x, y = op.operands
    found: dict[tuple[Factor, ...], MayTakeApart] = {}
    for opened in (everything, ledger.alone, nothing):
        found.setdefault(tuple(flat(x, y, opened).factors), opened)
    return list(found.values())
