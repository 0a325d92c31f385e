"""Errors for Python that can't be staged: the user's line, and the rewrite of that very line."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dlvm.base.errors import Origin, StagedAttributeError, StagedTypeError, TraceError, closest
from dlvm.dsl.words.names import lookup
from dlvm.ir import NUMBERS

from .scopes import user_origin
from .suggestions import ATTRIBUTES, instead

if TYPE_CHECKING:
    from .sizes import Size
    from .tensor import Tensor


def no_truth(x: Tensor) -> TraceError:
    """Python asked whether a staged value is true."""
    origin = user_origin()
    if not x.alive:
        return used_after(x)
    return TraceError(
        f"{x.describe()} has no truth value while the function is traced",
        origin=origin,
        remedy=f"write {rewritten(origin)}",
    )


def rewritten(origin: Origin) -> str:
    """How the user's line is written on staged values."""
    line = origin.source()
    text = line.removeprefix("el") if line.startswith("elif") else line
    tree = _parsed(text) or _parsed(f"{text}\n pass")
    found = (_rewrite(_Joined().visit(node)) for node in ast.walk(tree)) if tree else ()
    instead = (_staged_call(origin) or _GENERAL).removeprefix("write ")
    return next((text for text in found if text), instead)


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


_GENERAL = "dlvm.where(condition, a, b), or dlvm.cond(condition, then, otherwise, *xs)"


class _Joined(ast.NodeTransformer):
    """``a and not b`` as ``(a) & ~(b)``, which staged values understand."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        """``and`` and ``or``."""
        sign = " & " if isinstance(node.op, ast.And) else " | "
        parts = (f"({ast.unparse(self.visit(v))})" for v in node.values)
        return ast.Name(sign.join(parts))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """``not``."""
        if not isinstance(node.op, ast.Not):
            return node
        return ast.Name(f"~({ast.unparse(self.visit(node.operand))})")

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """``a < b < c``, and ``a in b``."""
        match node:
            case ast.Compare(left=a, ops=[ast.In()], comparators=[b]):
                return ast.Name(f"dlvm.any({_array(b)} == {ast.unparse(a)})")
            case ast.Compare(left=ast.Attribute(attr="shape"), ops=[ast.Eq()]):
                return ast.Name(f"{ast.unparse(node.left)}[0] == ...")
            case ast.Compare(ops=[_]):
                return node
            case _:
                pass
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        each = (ast.unparse(ast.Compare(a, [op], [b])) for a, op, b in pairs)
        return ast.Name(" & ".join(f"({text})" for text in each))


def _rewrite(node: ast.AST) -> str | None:
    """The rewrite of one statement or expression, if it asks for a truth value."""
    match node:
        case ast.If(test=test):
            c = ast.unparse(test)
            return f"dlvm.where({c}, a, b) for values, dlvm.cond({c}, then, otherwise) for code"
        case ast.While(test=test):
            return f"dlvm.while_loop(lambda state: {ast.unparse(test)}, body, state)"
        case ast.Assert(test=test):
            return f'dlvm.assert_({ast.unparse(test)}, "message")'
        case ast.IfExp(test=test, body=a, orelse=b):
            return f"dlvm.where({', '.join(map(ast.unparse, (test, a, b)))})"
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[a, b]):
            return f"dlvm.{name}imum({ast.unparse(a)}, {ast.unparse(b)})"
        case ast.Call(func=ast.Name(id="max" | "min" | "any" | "all" as name), args=[a]):
            return f"dlvm.{name}({ast.unparse(a)})"
        case ast.Call(func=ast.Name(id="sorted"), args=[a, *_]):
            return f"dlvm.sort({ast.unparse(a)})"
        case ast.Name(id=text) if not text.isidentifier():
            return text
        case _:
            return None


def _array(node: ast.AST) -> str:
    """An expression as an array; what is written out is made one."""
    text = ast.unparse(node)
    return f"dlvm.asarray({text})" if isinstance(node, ast.List | ast.Tuple) else text


def no_number(x: Tensor, what: str) -> TraceError:
    """Python or NumPy wanted the number that a staged value will only have in a call."""
    origin = user_origin()
    if not x.alive:
        return used_after(x)
    if (array := _assigned_into(origin, what)) is not None:
        return TraceError(
            f"{x.describe()} can't go into the NumPy array {array} while the function is traced",
            origin=origin,
            remedy=f"make {array} in the function with dlvm.zeros, or a changed copy of it with "
            f"dlvm.at({array}, i).set(v)",
        )
    remedies = {
        "a NumPy array": "write dlvm.stack([a, b]) for one array of several, dlvm.asarray for one",
        "int": "write x.astype(int)",
        "text": "drop the format, or write dlvm.print(x), which writes it when the call gets there",
        SIZE: "index with x[i] or dlvm.take; a size must be static (static=) or come from x.shape",
    }
    return TraceError(
        f"{x.describe()} can't become {what} while the function is traced",
        origin=origin,
        remedy=_staged_call(origin) or _counted(origin, what) or remedies.get(what, KEEP),
    )


SIZE = "an index or a size"
KEEP = "keep it as it is, or return it and convert the result"


def _staged_call(origin: Origin) -> str | None:
    """What to write for a function of ``math`` or NumPy in the user's line that needs numbers."""
    tree = _parsed(origin.source())
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="math" | "np" | "numpy" as module), attr=name)
            ) if module == "math" or not isinstance(getattr(np, name, None), np.ufunc):
                return _instead(name)
            case _:
                pass
    return None


def _instead(name: str) -> str | None:
    """The function on staged values of a name of ``math`` or NumPy."""
    known = {"pow": "x ** y", "fabs": "dlvm.abs", "array": None, "asarray": None}
    if name in known:
        return known[name] and f"write {known[name]}"
    if name in {t.numpy.name for t in NUMBERS}:
        return f"write x.astype({name!r})"
    return f"write dlvm.{name}, which takes staged values and open sizes" if lookup(name) else None


def no_number_of_size(size: Size, what: str) -> TraceError:
    """Python or NumPy wanted the number that an open size will only be in a call."""
    remedies = {
        "float": "compute with the size itself, which is a number: x / x.shape[0] ** 0.5",
        "int": "use the size itself, in shapes and as a number",
        "text": "drop the format, or write dlvm.print(n), which writes it when the call gets there",
    }
    origin = user_origin()
    return TraceError(
        f"the size {size} is not known while tracing, so it can't become {what}",
        origin=origin,
        remedy=_staged_call(origin) or remedies.get(what, OPEN),
    )


OPEN = (
    "use the symbolic size itself in shapes, dlvm.fori_loop or dlvm.scan in the place of range, "
    "or compile for fixed shapes"
)


def no_hash_of_size(size: Size) -> StagedTypeError:
    """Python wanted to look an open size up, in a dict or a set."""
    return StagedTypeError(
        f"the size {size} is not known while tracing, so it has no hash and is no key",
        origin=user_origin(),
        remedy="choose with dlvm.where or dlvm.cond, or compile for fixed shapes",
    )


def _counted(origin: Origin, what: str) -> str | None:
    """What to write where the user's line counts up to a staged number."""
    tree = _parsed(line := origin.source()) or _parsed(f"{line}\n pass")
    for node in ast.walk(tree) if tree and what == SIZE else ():
        match node:
            case ast.Call(func=ast.Name(id="range"), args=[*args]):
                bounds = ", ".join(map(ast.unparse, args if len(args) > 1 else [_ZERO, *args]))
                return (
                    f"write dlvm.fori_loop({bounds}, lambda i, carry: ..., carry), or make the "
                    "number static (static=)"
                )
            case _:
                pass
    return None


_ZERO = ast.Constant(0)


def _assigned_into(origin: Origin, what: str) -> str | None:
    """The array into whose elements the user's line assigns, if it does."""
    tree = _parsed(origin.source())
    if tree is None or any(_converts(node, what) for node in ast.walk(tree)):
        return None
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AugAssign) else targets
        for target in targets:
            if isinstance(target, ast.Subscript):
                return ast.unparse(target.value)
    return None


def _converts(node: ast.AST, what: str) -> bool:
    """Whether the user asks for a Python number or a NumPy array in so many words."""
    match node:
        case ast.Call(func=ast.Name(id="int" | "float" | "complex" | "bool")):
            return True
        case ast.Call(func=ast.Name(id="range")):
            return what == SIZE
        case ast.Call(func=ast.Attribute(attr="array" | "asarray" | "item")):
            return True
        case _:
            return False


def unknown_length(x: Tensor, what: str) -> TraceError:
    """Python wanted to walk along an axis whose size is unknown, or that is not there."""
    reason = "its leading size is a symbol" if x.type.shape else "it has no axes"
    return TraceError(
        f"{what} over {x.describe()}: {reason}",
        origin=user_origin(),
        remedy="use dlvm.scan or dlvm.map over the leading axis, and x.shape[0] as its size",
    )


def used_after(x: Tensor) -> TraceError:
    """A staged value outlived the trace or the region in which it was made."""
    return TraceError(
        f"a staged value ({x.describe()}) is used after its trace or region has ended",
        origin=user_origin(),
        remedy="return it from the function, and don't store staged values outside",
    )


def not_in_place(x: Tensor, what: str, remedy: str) -> TraceError:
    """Python changes an array itself in a way that staged values can't be changed."""
    return TraceError(
        f"{x.describe()} can't {what}", origin=user_origin(), remedy=f"write {remedy}"
    )


def not_like_python(x: Tensor, what: str, remedy: str) -> StagedTypeError:
    """Python treats a staged value as another kind of object."""
    if not x.alive:
        return StagedTypeError(used_after(x).message, origin=user_origin(), remedy=KEEP)
    said = f"{x.describe()} {what} while the function is traced"
    return StagedTypeError(said, origin=user_origin(), remedy=remedy)


OF_ARRAYS = frozenset([*dir(np.ndarray), "at", "mT"])
"""What users know of arrays: a staged one has names of its own, which no one means."""


def no_attribute(x: Tensor, name: str, known: Sequence[str]) -> StagedAttributeError:
    """A method or attribute that staged arrays do not have."""
    near = closest(name, [n for n in known if n[0] != "_" and n in OF_ARRAYS])
    there = f"write dlvm.{name}(x)" if lookup(name) else ATTRIBUTES.get(name)
    meant = instead(name)
    return StagedAttributeError(
        f"{x.describe()}: a staged array has no {name!r}",
        origin=user_origin(),
        remedy=there
        or (near and f"did you mean {near!r}?")
        or meant
        or "dir(dlvm) lists the functions there are",
    )
