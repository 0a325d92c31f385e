"""What is known outside a region becomes known inside, and branches that cost less than a jump."""

from __future__ import annotations

from collections.abc import Iterable

from dlvm import cost
from dlvm.cost import body_time, size_in_bytes, sum_of
from dlvm.ir import TAPE, Function, Module, Op, Param, Value, inline, literal, splat
from dlvm.ir.dataflow import Runs
from dlvm.ir.rewrite import Env, map_regions, mapped, prefixed, transform
from dlvm.ops import Broadcast, Constant, Creation, Factorisation, Select, Structured, scalar_value
from dlvm.opt.facts import speculable
from dlvm.passes import function_pass, module_pass

from .values import widened

SMALL_CONSTANT = 16
CHEAP = 60_000
"""Picoseconds in which both sides of a branch may be computed, where one is chosen."""


@module_pass
def propagate(module: Module) -> Module:
    """Carry what is known into the regions of branches and loops, and around them.

    Captured constants, sizes and counts are made anew inside (scanned tensors too, where they
    are one number throughout). A branch on a constant is its branch; inside a branch the
    condition is known. What every branch gives unchanged, or a loop carries unchanged, is taken
    from before it; what goes in or comes out twice does so once. Outer regions first, so that
    one pass reaches any depth.
    """
    return module.map(_propagated)


def _propagated(fn: Function) -> Function:
    return transform(fn, _visit) if any(kind.holds_regions for kind in fn.kinds) else fn


def _visit(op: Op, env: Env) -> Iterable[Value] | None:
    operands = mapped(op.operands, env)
    if not op.holds_regions or op.one_nest:
        return None
    if isinstance(op, Structured) and op.dataflow.captured:
        chosen = scalar_value(operands[0]) if op.dataflow.runs is Runs.CHOICE else None
        if chosen is not None:
            return inline(_propagated(op.giving[0 if chosen else 1]), operands[op.seen])
        return _around(op, operands, _informed(op, operands))
    changed = map_regions(op, _propagated)
    return op.rebuild(operands, **changed).results if changed else None


def _informed(op: Structured, operands: list[Value]) -> dict[str, Function]:
    """The regions that change when they know what their operands are."""
    out: dict[str, Function] = {}
    for name, region in op.regions.items():
        known = prefixed(region, lambda r=region, n=name: _knowledge(op, n, r, operands))
        if (new := _propagated(known)) is not region:
            out[name] = new
    return out


def _knowledge(op: Structured, name: str, region: Function, operands: list[Value]) -> Env:
    env: Env = {}
    twins: dict[tuple[Value, bool], Param] = {}
    for j, param in enumerate(region.params[op.carries :], op.carries):
        value = operands[j + op.offset]
        twin = twins.setdefault((value, param.type == value.type), param)
        if twin is not param and param.dtype != TAPE:
            env[param] = twin
        if op.dataflow.runs is Runs.CHOICE and value is operands[0]:
            env[param] = Constant(literal(name == op.dataflow.bodies[0], param.dtype))
        elif j < op.carries + op.slices:
            if isinstance(value, Broadcast) and (number := scalar_value(value)) is not None:
                env[param] = splat(number, param.type)
        elif _portable(value) or (isinstance(value, Broadcast) and _portable(value.x)):
            env[param] = _made_anew(value)
    return env


def _portable(value: Value) -> bool:
    if isinstance(value, Constant):
        return value.value.size <= SMALL_CONSTANT
    return isinstance(value, Creation) and value.type.dtype != TAPE


def _made_anew(value: Value) -> Value:
    if isinstance(value, Broadcast):
        return Broadcast(_made_anew(value.x), value.shape_to, value.axes)
    assert isinstance(value, Op)
    return value.rebuild(())


def _around(
    op: Structured, operands: list[Value], regions: dict[str, Function]
) -> Iterable[Value] | None:
    """The results, those that pass through unchanged taken from the operands."""
    passed, twins = _passed(op), _twins(op)
    still = {i: operands[j + op.offset] for i, j in passed.items()}
    constant_carries = [i for i in passed if i < op.carries]
    if not regions and not passed and not twins:
        return None
    regions = {**op.regions, **regions}
    if constant_carries:
        regions = {n: _with_captured_carries(r, constant_carries) for n, r in regions.items()}
    new = op.regrouped(operands, regions, [operands[i] for i in constant_carries])
    still |= {j: new.results[i] for j, i in twins.items() if j not in still}
    return [still.get(i, r) for i, r in enumerate(new.results)]


def _twins(op: Structured) -> dict[int, int]:
    """Which results are always equal to an earlier one: j -> i."""
    first: dict[tuple[Value, ...], int] = {}
    out: dict[int, int] = {}
    for j, values in enumerate(zip(*(r.results for r in op.giving), strict=True)):
        stacked = j >= op.carries
        if stacked and op.result_types[j].dtype != TAPE and (i := first.setdefault(values, j)) != j:
            out[j] = i
    return out


def _passed(op: Structured) -> dict[int, int]:
    """Which results are parameters of every giving region, and which: i -> j."""
    out: dict[int, int] = {}
    places: list[dict[Value, int]] = [{p: j for j, p in enumerate(r.params)} for r in op.giving]
    loops = op.dataflow.loops
    count = op.carries if loops else len(op.results)
    for i in range(count):
        found = {at.get(r.results[i]) for at, r in zip(places, op.giving, strict=True)}
        j = found.pop()
        linear = op.result_types[i].dtype == TAPE
        if not found and j is not None and not linear and (not loops or i == j):
            out[i] = j
    return out


def _with_captured_carries(region: Function, which: list[int]) -> Function:
    params = [Param(region.params[i].type, region.params[i].name) for i in which]
    env: Env = {region.params[i]: p for i, p in zip(which, params, strict=True)}
    return widened(region, params, env)


@function_pass
def select_branches(fn: Function) -> Function:
    """Turn a branch into selects where computing both sides costs next to nothing.

    Only where neither side acts, may raise, holds a loop or factorises, and both together take no
    more than some 60 ns, for every size. Factorisations of small matrices wait for each step, and
    take ten times what their number of flops says.
    """

    def visit(op: Op, env: Env) -> Iterable[Value] | None:
        assert isinstance(op, Structured)
        if op.dataflow.runs is not Runs.CHOICE or not _cheap(op):
            return None
        operands = mapped(op.operands, env)
        condition = operands[0]
        sides = [inline(branch, operands[op.seen]) for branch in op.giving]
        return [_chosen(condition, x, y) for x, y in zip(*sides, strict=True)]

    return transform(fn, visit, on=Structured)


def _cheap(op: Structured) -> bool:
    if not all(_is_plain(o) for branch in op.giving for o in branch.ops):
        return False
    chosen = cost.STEP * sum_of(map(size_in_bytes, op.result_types))
    both = chosen + sum_of(map(body_time, op.giving))
    return (
        isinstance(both, int)
        and both <= CHEAP
        and all(t.dtype.kind != "t" for t in op.result_types)
    )


def _is_plain(op: Op) -> bool:
    return speculable(op) and not op.regions and not isinstance(op, Factorisation)


def _chosen(condition: Value, x: Value, y: Value) -> Value:
    if x is y:
        return x
    return Select(Broadcast(condition, x.shape, ()) if x.shape else condition, x, y)
