"""The printer of IR text; ``parser`` reads the text back exactly.

One printer serves every operation, led by the fields of its class. A module starts with ``dlvm 1``.
Attributes that equal their default are omitted, constants of more than sixteen elements go to a
data section at the end, and the text depends on nothing but the module.
"""

from __future__ import annotations

import binascii
import math
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from dlvm.ir.core import Declaration, Entry, Function, Op, Param, Value
from dlvm.ir.sharding.mesh import shares, shown
from dlvm.ir.types import Array, TensorType, contents, dtype_of

VERSION = 1
INLINE = 16


class Printer:
    """Writes one module; collects its data section.

    With ``places`` a comment names the line of the source from which on operations come.
    ``encoded`` are the bytes by which the data section tells the elements of an array.
    """

    def __init__(
        self,
        places: bool = False,
        encoded: Callable[[Array], bytes] = lambda x: np.ascontiguousarray(x).tobytes(),
    ) -> None:
        self.places = places
        self.encoded = encoded
        self.place = ""
        self.lines: list[str] = []
        self.data: dict[tuple[str, tuple[int, ...], bytes], tuple[int, Array]] = {}

    def module(self, entries: Iterable[Entry]) -> str:
        """The text of a whole module, with the data section at the end."""
        self.lines.append(f"dlvm {VERSION}")
        for entry in entries:
            if isinstance(entry, Function):
                self.function(entry, f"func @{entry.name}", "")
            else:
                self.lines.append(declaration(entry))
        return self.text()

    def text(self) -> str:
        """The lines written so far, followed by their data section."""
        for (name, shape, _), (index, array) in self.data.items():
            encoded = binascii.b2a_base64(self.encoded(array), newline=False).decode()
            dims = ",".join(map(str, shape))
            self.lines.append(f"data #{index} : {name}[{dims}] = {encoded}")
        return "\n".join(self.lines) + "\n"

    def function(self, fn: Function, head: str, indent: str) -> None:
        """Writes a function or region: its head, operations and results."""
        names = name_values(fn)
        params = ", ".join(_param(p, names[p]) for p in fn.params)
        self.lines.append(f"{indent}{head}({params}) -> {_results(fn)} {{")
        for op in fn.ops:
            self.operation(op, names, indent + "  ")
        returned = ", ".join(names[r] for r in fn.results)
        self.lines.append(f"{indent}  return {returned}".rstrip())
        self.lines.append(f"{indent}}}")

    def operation(self, op: Op, names: dict[Value, str], indent: str) -> None:
        """Writes the line of an operation, then its regions."""
        left = ", ".join(names[r] for r in op.results)
        types = ", ".join(map(typed, op.results))
        text = " ".join([op.name, *self.fields(op, names)])
        line = f"{left} = {text} : {types}" if left else text
        self.lines.append(indent + line + self.comment(op))
        for spec in op.layout:
            if spec.kind == "region":
                self.function(getattr(op, spec.name), spec.label, indent + "  ")

    def comment(self, op: Op) -> str:
        """The place of an operation in the source, unless the one before has the same."""
        place = str(op.origin) if self.places and op.origin else ""
        if not place or place == self.place:
            return ""
        self.place = place
        return f"  // {place}"

    def fields(self, op: Op, names: dict[Value, str]) -> list[str]:
        """The operands, then the attributes, as they are written on the operation's line."""
        operands: list[str] = []
        attributes: list[str] = []
        for spec in op.layout:
            value = getattr(op, spec.name)
            if spec.kind == "operand":
                operands.append(names[value])
            elif spec.kind == "operands":
                operands.append(f"[{', '.join(names[v] for v in value)}]")
            elif spec.kind == "array":
                attributes.append(f"{spec.label}={self.array(value)}")
            elif spec.kind == "attribute" and value != spec.default:
                attributes.append(f"{spec.label}={attribute(value)}")
        return [", ".join(operands), *attributes] if operands else attributes

    def array(self, value: Array) -> str:
        """The text of a constant: a number, a flat list, or a reference to the data section."""
        dtype = dtype_of(value)
        if value.size > INLINE and dtype is not None:
            key = (dtype.name, value.shape, contents(value))
            index, _ = self.data.setdefault(key, (len(self.data), value))
            return f"#{index}"
        numbers = [number(v) for v in value.reshape(-1)]
        return numbers[0] if value.ndim == 0 else f"[{', '.join(numbers)}]"


def number(value: Any) -> str:
    """The shortest text that is read back as the same bits."""
    if value.dtype.kind == "b":
        return "true" if value else "false"
    if value.dtype.kind in "iu":
        return str(int(value))
    wide = float(value)
    if math.isnan(wide):
        bits = int(value.view(f"u{value.dtype.itemsize}"))
        return "nan" if bits == _canonical_nan(value.dtype) else f"bits({bits:#x})"
    if math.isinf(wide):
        return "inf" if wide > 0 else "-inf"
    short = str(value) if value.dtype.kind == "f" else repr(wide)
    exact = repr(wide)
    text = short if np.array(float(short), value.dtype) == value else exact
    return text if any(c in text for c in ".e") else text + ".0"


def _canonical_nan(dtype: np.dtype[Any]) -> int:
    return int(np.array(math.nan, dtype).view(f"u{dtype.itemsize}"))


def name_values(fn: Function) -> dict[Value, str]:
    """A name for each value: parameters keep theirs, results are numbered in order.

    Characters that are not allowed in a name become ``_``. A parameter whose name is taken or is a
    number gets a suffix.
    """
    names: dict[Value, str] = {}
    taken: set[str] = set()
    for i, param in enumerate(fn.params):
        name = re.sub(r"[^\w.]", "_", param.name) or f"arg{i}"
        if name in taken or name.isdigit():
            name = next(c for n in range(len(fn.params) + 1) if (c := f"{name}_{n}") not in taken)
        taken.add(name)
        names[param] = f"%{name}"
    counter = 0
    for op in fn.ops:
        for result in op.results:
            names[result] = f"%{counter}"
            counter += 1
    return names


def _param(param: Param, name: str) -> str:
    return f"{name}: {typed(param)}{' donated' if param.donated else ''}"


def typed(value: Value) -> str:
    """The type of a value, with the axes of a mesh that share its axes: ``f32[512@data,256]``."""
    if (sharding := shares(value.sharding)) is None:
        return str(value.type)
    return f"{value.dtype}[{shown(value.shape, sharding)}]"


def _results(fn: Function) -> str:
    types = [str(r.type) for r in fn.results]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def attribute(value: Any) -> str:
    """The text of one attribute value."""
    match value:
        case None:
            return "none"
        case bool():
            return "true" if value else "false"
        case str():
            import json

            return json.dumps(value)
        case float():
            return repr(value)
        case tuple():
            items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
            return f"({', '.join(map(attribute, items))})"
        case TensorType(shape=()):
            return f"{value}[]"
        case _:
            return str(value)


def declaration(d: Declaration) -> str:
    """The line of a derived function that is not expanded yet."""
    words = [f"{d.kind} @{d.name} of @{d.of}"]
    if d.kind == "batched":
        words += [f"axes {attribute(d.axes)}", f"size {d.size}"]
    else:
        words.append(f"wrt {attribute(d.wrt)}")
    if d.keep:
        words.append(f"keep {attribute(d.keep)}")
    if d.seeded:
        words.append("seeded")
    return " ".join(words)


def printed(entries: Iterable[Entry], places: bool = False) -> str:
    """The text of a module that has these entries, which ``parse`` reads back exactly."""
    return Printer(places).module(entries)


def told_apart(entries: Iterable[Entry], encoded: Callable[[Array], bytes] = contents) -> str:
    """A text that differs for modules that differ, without the elements of large constants.

    ``encoded`` says what is told of these instead. The text also tells which are equal.
    """
    return Printer(encoded=encoded).module(entries)
