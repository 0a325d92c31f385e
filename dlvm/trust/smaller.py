"""Programs that are one step smaller than a program, each with arguments of its own.

A step is a function that makes one, and is tried blindly: it may fail, what it makes may be no
program, and who asks says whether it still fails in the same way. Where an operation goes its
results become parameters, whose arguments are what it gave; so what is left meets the same numbers
as before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dlvm.ad import expand
from dlvm.errors import DlvmError
from dlvm.ir import (
    BF16,
    BOOL,
    F16,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    Array,
    Builder,
    Declaration,
    DType,
    Expr,
    Function,
    Module,
    Op,
    Param,
    Part,
    TensorType,
    Value,
    inline,
    splat,
)
from dlvm.ir.dims import evaluate, symbols
from dlvm.ir.interpret import bind
from dlvm.ir.rewrite import Env, everywhere, mapped, place, resized, transform
from dlvm.ops import Call, Checkpoint, Cond, Constant, Kernel, Recompute
from dlvm.opt.dropping import drop

from .recast import changed, recast
from .rounding import Run

Steps = Iterator[Callable[[], "Case"]]
SIZES = ("shape", "shape_to", "sizes", "size", "length")
"""The attributes that hold sizes of axes."""
PLAIN: tuple[Mapping[DType, DType], ...] = (
    {F16: F64, BF16: F64, F32: F64},
    {F16: F32, BF16: F32},
    {I8: I64, I16: I64, I32: I64, U8: I64, U16: I64, U32: I64, U64: I64},
)
"""Types that a program may be written in instead."""


@dataclass(frozen=True)
class Case:
    """A program and arguments for its first function."""

    module: Module
    arrays: tuple[Array, ...]

    @property
    def main(self) -> Function:
        """The first function."""
        return self.module.main

    @property
    def ops(self) -> int:
        """How many operations there are, those of regions included."""
        return sum(1 for fn in self.module.functions for _ in fn.walk())

    @property
    def weight(self) -> tuple[int, ...]:
        """Smaller is smaller: operations, entries, parameters, sizes, types, numbers."""
        values = len(self.main.params) + len(self.main.results)
        types = [p.type for p in self.main.params]
        types += [t for op in self.main.walk() for t in op.result_types]
        named = sum(len([*symbols(d)]) for t in types for d in t.shape)
        numbers = [*self.arrays, *(op.value for op in self.main.walk() if isinstance(op, Constant))]
        elements = sum(a.size for a in numbers)
        extents = sum(d for t in types for d in t.shape if isinstance(d, int))
        odd = sum(t.dtype not in (F64, I64, BOOL) for t in types)
        wide = [a.astype(np.float64) for a in numbers]
        hard = sum(int(np.count_nonzero(a != np.round(a))) for a in wide)
        whole = sum(float(np.abs(a).sum()) for a in wide)
        ops = self.ops
        trouble = (hard, int(whole)) if np.isfinite(whole) else (hard + 1, 0)
        return ops, len(self.module.entries), values, named, elements + extents, odd, *trouble

    @cached_property
    def run(self) -> Run:
        """A run that remembers what every operation and region was given, as far as it went."""
        machine = Run(Module(()), seen={})
        try:
            machine.module = expand(self.module)
            with np.errstate(all="ignore"):
                machine.enter(self.main.name, [np.array(a) for a in self.arrays])
        except Exception:  # a program under suspicion; what has run is known
            return machine
        return machine

    def with_main(self, fn: Function, more: Mapping[Param, Array] | None = None) -> Case:
        """Another first function; ``more`` are the arguments of new parameters."""
        known = dict(zip(self.main.params, self.arrays, strict=True)) | dict(more or {})
        entries = [_redeclared(e, self.main, fn) for e in self.module.entries if e is not self.main]
        return Case(Module((fn, *entries)), tuple(known[p] for p in fn.params))


def _redeclared(entry: Any, old: Function, new: Function) -> Any:
    """A declaration of a function whose parameters or results have become fewer or more."""
    if not isinstance(entry, Declaration) or entry.of != old.name:
        return entry
    params = {p: i for i, p in enumerate(new.params)}
    wrt = tuple(params[old.params[i]] for i in entry.wrt if old.params[i] in params)
    results = {r: i for i, r in enumerate(new.results)}
    keep = tuple(results[old.results[i]] for i in entry.keep if old.results[i] in results)
    axes = entry.axes
    if axes:
        given = dict(zip(old.params, axes, strict=True))
        axes = tuple(given.get(p) for p in new.params)
    return replace(entry, wrt=wrt, keep=keep, axes=axes)


# -- another place to look at ----------------------------------------------------------------------


def focused(case: Case) -> Steps:
    """A region or another function as the program, on what it was first given; small ones first."""
    found = [(fn, xs) for fn, xs in case.run.entered.items() if fn is not case.main]
    for fn, arrays in sorted(found, key=lambda pair: len(pair[0].ops)):
        yield lambda fn=fn, arrays=arrays: _alone(case, fn, arrays)


def _alone(case: Case, fn: Function, arrays: Sequence[Array]) -> Case:
    main = replace(resized(fn, _sizes_of(case)), name="main")
    others = [f for f in case.module.functions if f is not fn and f is not case.main]
    return Case(Module((main, *_reachable(main, others))), tuple(map(np.asarray, arrays)))


def declared(case: Case) -> Steps:
    """One declaration of the program's, with the function that it is of first."""
    for d in case.module.declarations:
        of = next((f for f in (case.main, *case.run.entered) if f.name == d.of), None)
        if of is not None and of in case.module.functions:
            yield lambda d=d, of=of: _of_declaration(case, d, of)


def _of_declaration(case: Case, d: Declaration, of: Function) -> Case:
    others = [f for f in case.module.functions if f is not of]
    arrays = case.arrays if of is case.main else case.run.entered[of]
    return Case(Module((of, *_reachable(of, others), d)), tuple(arrays))


def _reachable(main: Function, others: Collection[Function]) -> list[Function]:
    names = {f.name: f for f in others}
    found: dict[str, Function] = {}
    pending = [main]
    while pending:
        for op in pending.pop().walk():
            callee = op.callee.name if isinstance(op, Call) else ""
            if callee in names and callee not in found:
                found[callee] = names[callee]
                pending.append(names[callee])
    return list(found.values())


# -- fewer things ----------------------------------------------------------------------------------


def without_entries(case: Case) -> Steps:
    """One function or declaration less."""
    for entry in case.module.entries[1:]:
        rest = tuple(e for e in case.module.entries if e is not entry)
        yield lambda rest=rest: Case(Module(rest), case.arrays)


def with_results(case: Case, kept: Sequence[int]) -> Case:
    """Some of the results only."""
    results = tuple(case.main.results[i] for i in kept)
    return case.with_main(replace(case.main, results=results))


def earlier(case: Case) -> Steps:
    """A result as what it was made of."""
    for i, result in enumerate(case.main.results):
        op = result.op if isinstance(result, Part) else result
        for operand in op.operands if isinstance(op, Op) else ():
            results = (*case.main.results[:i], operand, *case.main.results[i + 1 :])
            yield lambda results=results: dead(case.with_main(replace(case.main, results=results)))


def dead(case: Case) -> Case:
    """Without the operations of the first function that nothing uses and that do nothing else."""
    needed = set(case.main.results)
    kept: list[Op] = []
    for op in reversed(case.main.ops):
        if op.is_effect or needed & set(op.results):
            kept.append(op)
            needed.update(op.operands)
    return case.with_main(replace(case.main, ops=tuple(reversed(kept))))


def without_params(case: Case) -> Steps:
    """One parameter less, of those that nothing uses."""
    used = {v for op in case.main.ops for v in op.operands} | set(case.main.results)
    for param in case.main.params:
        if param not in used:
            params = tuple(p for p in case.main.params if p is not param)
            yield lambda params=params: case.with_main(replace(case.main, params=params))


def with_ops(case: Case, kept: Collection[Op]) -> Case:
    """Some of the operations only; what the others gave comes from outside."""
    sizes = _sizes_of(case)
    needed = {v for op in case.main.ops if op in kept for v in op.operands}
    needed |= set(case.main.results)
    env: Env = {}
    more: dict[Param, Array] = {}
    for op in case.main.ops:
        for value in () if op in kept else op.results:
            if value in needed:
                param = Param(value.type.substitute(sizes), f"v{len(more)}")
                env[value], more[param] = param, case.run.made[value]
    builder = Builder()
    for op in case.main.ops:
        if op in kept:
            place(builder, op, env)
    fn = case.main
    return case.with_main(
        Function(fn.name, (*fn.params, *more), tuple(builder.ops), tuple(mapped(fn.results, env))),
        more,
    )


def _sizes_of(case: Case) -> dict[str, int]:
    params = case.main.params
    try:
        return bind([p.type for p in params], case.arrays, [p.name for p in params])
    except DlvmError:
        return {}


# -- inside ----------------------------------------------------------------------------------------


def opened(case: Case) -> Steps:
    """A branch, call or group of operations as what it holds."""
    for op in case.main.walk():
        if isinstance(op, Cond | Call | Checkpoint | Recompute | Kernel):
            visit = _opening(case, op)
            yield lambda visit=visit: case.with_main(
                everywhere(case.main, lambda fn: transform(fn, visit))
            )


def _opening(case: Case, which: Op) -> Callable[[Op, Env], Sequence[Value] | None]:
    def visit(op: Op, env: Env) -> Sequence[Value] | None:
        if op is not which:
            return None
        operands = mapped(op.operands, env)
        match op:
            case Cond():
                taken = bool((case.run.seen or {})[op][0])
                return inline(op.then if taken else op.otherwise, operands[1:])
            case Call():
                callee = case.module.function(op.callee.name)
                types = [p.type for p in callee.params]
                given = [v.type for v in operands]
                return inline(callee, operands, _unified(types, given))
            case Checkpoint() | Recompute() | Kernel():
                return inline(op.body, operands[: len(op.xs)])
            case _:
                return None

    return visit


def _unified(types: Sequence[TensorType], given: Sequence[TensorType]) -> Mapping[str, Any]:
    from dlvm.ir.unify import unify

    return unify(types, given)


def dropped(case: Case) -> Steps:
    """Only what results and effects need, in regions too."""
    yield lambda: Case(drop.run(case.module), case.arrays)


def inner(case: Case) -> Steps:
    """One operation less, anywhere, without a change of parameters and results."""
    for fn in case.module.functions:
        for edit in _edits(fn):
            if fn is case.main:
                yield lambda edit=edit: case.with_main(edit())
            else:
                yield lambda edit=edit: Case(case.module.replace(edit()), case.arrays)


def _edits(fn: Function) -> Iterator[Callable[[], Function]]:
    """Functions of the same signature with one operation less; the last operations first."""
    used = {v for op in fn.ops for v in op.operands} | set(fn.results)
    for op in reversed(fn.ops):
        for ways in (_same_type, _nothing) if used & set(op.results) else (_unused,):
            yield lambda op=op, ways=ways: _without(fn, op, ways)
        for name, region in op.regions.items():
            for edit in _edits(region):
                yield lambda op=op, name=name, edit=edit: _with_region(fn, op, name, edit())


def _same_type(fn: Function, op: Op, t: TensorType) -> Value:
    """An operand or parameter that might stand there."""
    return next(v for v in (*op.operands, *fn.params) if v.type == t)


def _unused(fn: Function, op: Op, t: TensorType) -> Value:
    return Param(t)


def _nothing(fn: Function, op: Op, t: TensorType) -> Value:
    return splat(1 if t.dtype.is_float else 0, t)


def _without(fn: Function, gone: Op, way: Callable[[Function, Op, TensorType], Value]) -> Function:
    def instead(op: Op, env: Env) -> Sequence[Value] | None:
        return mapped([way(fn, op, r.type) for r in op.results], env) if op is gone else None

    return transform(fn, instead)


def _with_region(fn: Function, which: Op, name: str, region: Function) -> Function:
    def instead(op: Op, env: Env) -> Sequence[Value] | None:
        return (
            op.rebuild(mapped(op.operands, env), **{name: region}).results if op is which else None
        )

    return transform(fn, instead)


# -- smaller things --------------------------------------------------------------------------------


def concrete(case: Case) -> Steps:
    """Known sizes in the place of symbols."""
    sizes = _sizes_of(case)
    if sizes:
        yield lambda: Case(case.module.map(lambda fn: resized(fn, sizes)), case.arrays)


def narrower(case: Case) -> Steps:
    """Another size in the place of a known one, wherever it stands."""
    types = [p.type for p in case.main.params]
    types += [t for op in case.main.walk() for t in op.result_types]
    found = {d for t in types for d in t.shape if isinstance(d, int)}
    for old in sorted(found, reverse=True):
        for new in sorted({1, 2, old // 2, old - 1}):
            if 0 < new < old:
                yield lambda old=old, new=new: _narrowed(case, old, new)
    for name, size in _sizes_of(case).items():
        for new in range(1, size):
            yield lambda name=name, new=new: _with_symbol(case, name, new)


def _narrowed(case: Case, old: int, new: int) -> Case:
    def size(d: Any) -> Any:
        return new if isinstance(d, int) and not isinstance(d, bool) and d == old else d

    def change(field: Any, name: str) -> Any:
        match field:
            case TensorType():
                return field.with_shape(tuple(map(size, field.shape)))
            case np.ndarray():
                array: Array = field  # pyright: ignore[reportUnknownVariableType]
                return _cut(array, tuple(map(size, array.shape)))
            case tuple() if name in SIZES or name == "types":
                items: tuple[Any, ...] = field  # pyright: ignore[reportUnknownVariableType]
                return tuple(change(v, name) for v in items)
            case _:
                return size(field) if name in SIZES else field

    shapes = [tuple(map(size, a.shape)) for a in case.arrays]
    arrays = [_cut(a, s) for a, s in zip(case.arrays, shapes, strict=True)]
    return Case(case.module.map(lambda fn: changed(fn, change)), tuple(arrays))


def _with_symbol(case: Case, name: str, size: int) -> Case:
    sizes = {**_sizes_of(case), name: size}
    shapes = [
        tuple(evaluate(d, sizes) if isinstance(d, Expr) else d for d in p.type.shape)
        for p in case.main.params
    ]
    return Case(case.module, tuple(map(_cut, case.arrays, shapes)))


def _cut(array: Array, shape: Sequence[int]) -> Array:
    """The first elements along every axis."""
    return np.array(array[tuple(slice(n) for n in shape)])


def plainer(case: Case) -> Steps:
    """Other types of elements."""
    for types in PLAIN:
        module = recast(case.module, types)
        if module is not case.module:
            pairs = zip(case.arrays, module.main.params, strict=True)
            arrays = tuple(a.astype(p.dtype.numpy) for a, p in pairs)
            yield lambda module=module, arrays=arrays: Case(module, arrays)


def rounder(case: Case) -> Steps:
    """Numbers that are easier to read."""
    for i, array in enumerate(case.arrays):
        for simple in (np.ones_like(array), np.round(array.astype(np.float64)), _counted(array)):
            new = np.asarray(simple).astype(array.dtype)
            arrays = (*case.arrays[:i], new, *case.arrays[i + 1 :])
            yield lambda arrays=arrays: Case(case.module, arrays)


def rounder_constants(case: Case) -> Steps:
    """The same of a constant, in regions too: so loops make fewer trips."""
    for fn in case.module.functions:
        for op in fn.walk():
            if isinstance(op, Constant):
                for number in (1, 0):
                    yield lambda old=op.value, number=number: _with_constant(case, old, number)


def _with_constant(case: Case, old: Array, number: int) -> Case:
    new = np.full_like(old, number)
    new.setflags(write=False)

    def change(field: Any, name: str) -> Any:
        return new if field is old else field

    return Case(case.module.map(lambda fn: changed(fn, change)), case.arrays)


def _counted(array: Array) -> Array:
    return np.arange(1, array.size + 1).reshape(array.shape)
