"""The verifier: it raises an ``IRError`` for the first rule that a module breaks.

For each entry of the module:

1. the name of a function or declaration consists of letters, digits, ``_`` and ``.``, so that it
  can be written in text; that names are unique is checked by the constructor of ``Module``;
2. a declaration is of a known kind and refers to an entry of the module, without a cycle; its
  positions exist, differ from one another, and are of floats where gradients or tangents are
  taken; its axes fit the parameters; an adjoint without ``seeded`` is of one float scalar.

For each function, and for each region, which is closed:

3. no parameter occurs twice, and no operation occurs twice;
4. every operand is a parameter or a result of an earlier operation of the same function, and so
  is every result of the function;
5. the result types of an operation are those that its shape rule infers; the shape rule of a
  control operation also checks the signatures of its regions, and that a region which must be
  pure (the condition of a loop, the body of a reduction) has no effects;
6. every symbol in a result type or an attribute occurs in the type of a parameter, either of the
  region itself or of a function or region around it;
7. a call names an entry of the module; its operands unify with the parameter types, and its
  result types follow from that; functions that it names as its derivative fit it as well (which
  the operation checks);
8. a tape is used at most once, by an operation or as a result, since its storage is not copied;
9. regions nest at most ``MAX_NESTING`` levels deep;
10. an operation that programs have from a stage on does not stand beside what ends there, nor
  beside a declaration.

An error about an operation shows its line of IR text.
"""

from __future__ import annotations

import re
from typing import Any

from dlvm.base.errors import CompilerError, DlvmError, IRError, UserError
from dlvm.ir.text.printer import Printer, name_values

from .core import MAX_NESTING, Function, FunctionRef, Op, Value
from .module import Module, hooks
from .sizes.dims import Dim, Expr, symbols
from .types import TAPE, TensorType
from .unify import unify

WORD = re.compile(r"[\w.]+")


def verify(module: Module) -> None:
    """Raises an ``IRError`` that shows the first broken rule and its line of IR text."""
    for entry in module.entries:
        if not WORD.fullmatch(entry.name):
            raise IRError(
                f"the name {entry.name!r} can't be written in text",
                remedy="use letters, digits, _ and . in names of functions",
            )
    for declaration in module.declarations:
        module.signature(declaration.name)
    for fn in module.functions:
        _function(module, fn, bound=set())
    _stages(module)


def _stages(module: Module) -> None:
    kinds = frozenset[type[Op]]().union(*(fn.kinds for fn in module.functions))
    late = [kind for kind in kinds if kind.stage]
    early = [kind.name for kind in kinds for k in late if kind.ends == k.stage]
    early += [f"{d.kind} @{d.name}" for d in module.declarations]
    if late and early:
        raise IRError(
            f"{late[0].name} stands in programs of the stage {late[0].stage} alone, found it beside"
            f" {early[0]}",
            remedy="let passes write it",
        )


def _function(module: Module, fn: Function, bound: set[str], depth: int = 0) -> None:
    if depth > MAX_NESTING:
        raise IRError(f"regions nest more than {MAX_NESTING} deep in {fn.name}")
    bound = bound | {s for p in fn.params for d in p.type.shape for s in symbols(d)}
    defined: set[Value] = set()
    for param in fn.params:
        if param in defined:
            raise IRError(f"@{fn.name}: the parameter %{param.name} occurs twice")
        defined.add(param)
    spent: set[Value] = set()
    for op in fn.ops:
        problem = _operation(module, op, defined, bound) or _spent_tape(op, spent)
        if problem:
            raise IRError(_under_line(fn, op, problem), origin=op.origin)
        for region in op.regions.values():
            _function(module, region, bound, depth + 1)
        defined.update(op.results)
    for result in fn.results:
        if result not in defined:
            raise IRError(f"@{fn.name} returns {result!r}, which is not defined in it")
        if result in spent:
            raise IRError(f"@{fn.name} returns a tape that was used before; it can be used once")
        if result.dtype is TAPE:
            spent.add(result)


def _operation(module: Module, op: Op, defined: set[Value], bound: set[str]) -> str | None:
    for i, operand in enumerate(op.operands):
        if operand not in defined:
            return f"operand {i}, {operand!r}, is not defined above"
    if any(r in defined for r in op.results):
        return "the operation occurs twice"
    if loose := _loose_symbols(op, bound):
        return f"the symbol {loose} does not occur in the type of any parameter"
    try:
        inferred = op.infer()
    except DlvmError as error:
        return str(error)
    types = (inferred,) if isinstance(inferred, TensorType) else inferred
    if types != op.result_types:
        return (
            f"expected results {_listed(types)} by the shape rule, found {_listed(op.result_types)}"
        )
    callee = op.attributes.get("callee")
    if not isinstance(callee, FunctionRef):
        return None
    return _call(module, op, callee) or op.misfit(module.signature)


def _spent_tape(op: Op, spent: set[Value]) -> str | None:
    for i, operand in enumerate(op.operands):
        if operand in spent:
            return f"operand {i} is a tape that was used before; it can be used once"
        if operand.type.dtype is TAPE:
            spent.add(operand)
    return None


def _loose_symbols(op: Op, bound: set[str]) -> str | None:
    dims: list[Dim] = [d for t in op.result_types for d in t.shape]
    for value in op.attributes.values():
        _collect(value, dims)
    return next((s for d in dims for s in symbols(d) if s not in bound), None)


def _collect(value: Any, into: list[Dim]) -> None:
    if isinstance(value, Expr):
        into.append(value)
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            _collect(item, into)


def _call(module: Module, op: Op, callee: FunctionRef) -> str | None:
    if callee.name not in module:
        return f"the module has no function {callee}"
    signature = module.signature(callee.name)
    try:
        values = unify(signature.params, tuple(v.type for v in op.operands))
    except UserError as error:
        return f"call of {callee}: {error.message}"
    expected = tuple(t.substitute(values) for t in signature.results)
    if expected != op.result_types:
        found = _listed(op.result_types)
        return f"call of {callee}: expected results {_listed(expected)}, found {found}"
    return None


def _listed(types: tuple[TensorType, ...]) -> str:
    return ", ".join(map(str, types)) or "nothing"


def _under_line(fn: Function, op: Op, problem: str) -> str:
    names: dict[Value, str] = {v: repr(v) for v in op.operands}
    names.update(name_values(fn))
    printer = Printer()
    try:
        printer.operation(op, names, "  ")
    except (DlvmError, KeyError, ValueError) as error:
        raise CompilerError(f"{op.name}: {problem} (and it can't be printed: {error})") from error
    return f"@{fn.name}: {op.name}: {problem}\n   | {printer.lines[0].strip()}"


hooks.verify = verify
