"""The pass that applies laws of linear algebra where they pay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from dlvm.ir import RULES, Builder, Function, Op, Value
from dlvm.ir.decisions import may_replace
from dlvm.ir.numerics import LICENSED, Mode, current_mode
from dlvm.ir.rewrite import Env, followed, rebuilt, renewed
from dlvm.passes import finite_function_pass

from .chains import cheapest_order, reordered
from .ledger import Ledger, Proposal

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
    if fn.kinds.isdisjoint(laws):
        return fn
    ledger, env = Ledger(fn), dict[Value, Value]()
    with Builder():  # which takes what is only tried
        kept = _rearranged(fn.ops, ledger, env, laws)
    if not env:
        return fn
    staying = [op for op in kept if op not in ledger.idle]
    return rebuilt(fn, staying, [followed(r, env) for r in fn.results])


def _rearranged(ops: Iterable[Op], ledger: Ledger, env: Env, laws: Laws) -> list[Op]:
    """The operations after every proposal that pays; ``env`` says what they replace."""
    kept: list[Op] = []
    for first in ops:
        pending = [first]
        while pending:
            op = _followed(pending.pop(), env, ledger)
            chosen = _best(ledger, op, laws)
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
    """The proposal that saves most; of equals, that of the first law."""
    best: Proposal | None = None
    for law, make in _proposers(op, ledger, laws):
        found = ledger.propose(op, make)
        if found is None or not found.pays or (best is not None and found.gain <= best.gain):
            continue
        if may_replace(law, op, (found.value,)):
            best = found
    return best


def _proposers(op: Op, ledger: Ledger, laws: Laws) -> Iterator[Proposer]:
    """Each law as it is, and the order of products with what others use taken as it stands too."""
    for law in laws.get(type(op), ()):
        yield law, law
        if law is cheapest_order:
            yield law, partial(reordered, opened=ledger.alone)
