"""Updates of one array, one after the other, become one kernel.

    update(update(x, y, ..), z, ..)

Where nobody else reads what lies between, and ``z`` reads of it the window that it replaces only.
So the lowering may take what belongs together (all windows of one image, say) while it is in the
cache, and a chain of many small updates is one launch.
"""

from __future__ import annotations

from dlvm.ir import Function, Param, Value
from dlvm.ir.decisions import allowed
from dlvm.ops import Update, reads_own_window, written_over

from .groups import MOST_OPS, Group
from .partition import Partition, of_family, readers


def chain_updates(groups: Partition, fn: Function) -> None:
    """Take the update whose result another one writes into to the kernel of that one.

    No value is kept longer for it: the second reads what the first reads, and parameters.
    """
    if len(updates := of_family(groups, "scatter")) < 2:
        return
    readers_of = readers(groups, fn)
    for group in sorted(updates, key=lambda g: g.place):
        op = group.members[0]
        before = groups.home.get(op.operands[0])
        if not isinstance(op, Update) or before is None:
            continue
        first, both = before.final, (*before.final.members, *group.members)
        if (
            _follows(groups, op, group, first)
            and readers_of.get(first) == {group}
            and len(both) <= MOST_OPS
            and allowed(chain_updates, both, "one kernel")
        ):
            group.absorb(first)


def _follows(groups: Partition, op: Update, group: Group, first: Group) -> bool:
    """Whether an update may run in the kernel of the one before it."""
    if first.family != "scatter" or not isinstance(op.x, Update):
        return False
    reads, known = groups.keys(group), groups.keys(first)
    memory = {*written_over(op)} - {op.x}
    lasting = all(k in known or k is op.x or isinstance(k, Param) for k in reads)

    def inside(value: Value) -> bool:
        home = groups.home.get(value)
        return value in groups.through or (home is not None and home.final is group)

    return lasting and memory.isdisjoint(reads) and reads_own_window(op, inside)
