"""The verifier. What it checks, for each function and region:

1. every operand is a parameter or the result of an operation above, of the same function;
2. every operation stands once, and its result types are what its shape rule infers;
3. results are values of the function; a region's signature is what its operation demands
   (checked by the operation's own shape rule);
4. every symbol in a type or attribute is bound by a parameter type (of the function around a
   region, or of the region itself);
5. a call names a function or declaration of the module, its operands unify with the
   parameter types, and its written result types follow from that; so with the functions that
   say the derivative of a call (checked by the operation);
6. a declaration refers to an entry of the module and its positions exist, without a cycle;
7. effects: a region that must be pure (predicates, reductions) is pure (checked by the
   operation's own shape rule);
8. a tape is used at most once, by an operation or as a result: its storage is not copied;
9. the name of a function can be written in text;
10. regions nest at most a hundred deep.

Errors stand under the offending line of IR text.
"""

from __future__ import annotations

import re
from typing import Any

from dlvm.base.errors import CompilerError, DlvmError, IRError, UserError
from dlvm.ir.text.printer import Printer, name_values

from .core import MAX_NESTING, Function, FunctionRef, Op, Value
from .dims import Dim, Expr, symbols
from .module import Module
from .types import TAPE, TensorType
from .unify import unify

WORD = re.compile(r"[\w.]+")


def verify(module: Module) -> None:
    """Raise an ``IRError`` that shows the first broken rule under its line."""
    for entry in module.entries:
        if not WORD.fullmatch(entry.name):
            raise IRError(f"the name of @{entry.name} can't be written in text")
    for declaration in module.declarations:
        module.signature(declaration.name)
    for fn in module.functions:
        _function(module, fn, bound=set())


def _function(module: Module, fn: Function, bound: set[str], depth: int = 0) -> None:
    if depth > MAX_NESTING:
        raise IRError(f"regions nest more than {MAX_NESTING} deep in {fn.name}")
    bound = bound | {s for p in fn.params for d in p.type.shape for s in symbols(d)}
    defined: set[Value] = set()
    for param in fn.params:
        if param in defined:
            raise IRError(f"@{fn.name}: the parameter %{param.name} stands twice")
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
            raise IRError(f"@{fn.name} returns a tape that is used already")
        if result.dtype is TAPE:
            spent.add(result)


def _operation(module: Module, op: Op, defined: set[Value], bound: set[str]) -> str | None:
    for i, operand in enumerate(op.operands):
        if operand not in defined:
            return f"operand {i}, {operand!r}, is not defined above"
    if any(r in defined for r in op.results):
        return "the operation stands twice"
    if loose := _loose_symbols(op, bound):
        return f"the size {loose} is not bound by any parameter"
    try:
        inferred = op.infer()
    except DlvmError as error:
        return str(error)
    types = (inferred,) if isinstance(inferred, TensorType) else inferred
    if types != op.result_types:
        return (
            f"the shape rule gives {_listed(types)}, the operation says {_listed(op.result_types)}"
        )
    callee = op.attributes.get("callee")
    if not isinstance(callee, FunctionRef):
        return None
    return _call(module, op, callee) or op.misfit(module.signature)


def _spent_tape(op: Op, spent: set[Value]) -> str | None:
    for i, operand in enumerate(op.operands):
        if operand in spent:
            return f"operand {i} is a tape that is used above"
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
        return f"no function {callee}"
    signature = module.signature(callee.name)
    try:
        values = unify(signature.params, tuple(v.type for v in op.operands))
    except UserError as error:
        return f"call of {callee}: {error.message}"
    expected = tuple(t.substitute(values) for t in signature.results)
    if expected != op.result_types:
        return f"call of {callee} gives {_listed(expected)}, not {_listed(op.result_types)}"
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
