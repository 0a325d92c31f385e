"""The parser of IR text, the inverse of the printer.

It is a recursive descent over one line at a time. Operations are constructed by their class from
fields, so no operation needs parsing code of its own. Every operation in the text is kept, whether
or not it is live. Every error shows the line that it is about, and nesting is limited.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dlvm.base.errors import DlvmError, IRError, Origin, did_you_mean
from dlvm.ir.core import (
    MAX_NESTING,
    OPS,
    Builder,
    Declaration,
    Function,
    FunctionRef,
    Op,
    Param,
    Value,
)
from dlvm.ir.layout import Spec
from dlvm.ir.module import Module
from dlvm.ir.sharding.mesh import Sharding
from dlvm.ir.sizes import dims
from dlvm.ir.types import Array, DType, TensorType

from .line import (
    END,
    Line,
    parse_attribute,
    parse_dim,
    parse_number,
    parse_sharded,
    parse_type,
)
from .printer import VERSION


@dataclass(frozen=True, slots=True)
class Plan:
    """The fields of a class of operations, grouped by where they occur in the text."""

    cls: type[Op]
    operands: tuple[Spec, ...]
    attributes: dict[str, Spec]
    types: tuple[Spec, ...]
    regions: tuple[Spec, ...]


@cache
def plan_of(cls: type[Op]) -> Plan:
    """The plan of a class."""

    def of(*kinds: str) -> tuple[Spec, ...]:
        return tuple(s for s in cls.layout if s.kind in kinds)

    named = {s.label: s for s in of("attribute", "array")}
    return Plan(cls, of("operand", "operands"), named, of("types"), of("region"))


_FITS: dict[str, Callable[[Any], bool]] = {
    "bool": lambda v: isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "float": lambda v: isinstance(v, int | float) and not isinstance(v, bool),
    "str": lambda v: isinstance(v, str),
    "Dim": lambda v: isinstance(v, int | dims.Expr) and not isinstance(v, bool),
    "DType": lambda v: isinstance(v, DType),
    "FunctionRef": lambda v: isinstance(v, FunctionRef),
}


def fits(value: Any, annotation: str) -> bool:
    """Whether an attribute value is of the type in the annotation of its field."""
    if not annotation.startswith("tuple["):
        return annotation not in _FITS or _FITS[annotation](value)
    if not isinstance(value, tuple):
        return False
    items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
    inner = annotation.removeprefix("tuple[").removesuffix("]").split(", ")
    if inner[-1] == "...":
        return all(fits(v, inner[0]) for v in items)
    return len(items) == len(inner) and all(map(fits, items, inner))


class Parser:
    """Reads one module; holds its lines, the data section and the current line."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        self.lines = [
            (i, body)
            for i, raw in enumerate(text.split("\n"), 1)
            if (body := raw if raw.lstrip().startswith('"') else _without_comment(raw)).strip()
        ]
        self.place = 0
        self.data: dict[str, Array] = {}
        self.ordinal = 0

    def line(self) -> Line:
        """Takes the next line that is not empty."""
        if self.place >= len(self.lines):
            raise IRError("expected '}' at the end of the function, found the end of the text")
        number, text = self.lines[self.place]
        self.place += 1
        return Line(text, number)

    def module(self) -> Module:
        """Reads the whole module."""
        self.version()
        self.read_data()
        entries: list[Function | Declaration] = []
        while self.place < len(self.lines):
            line = self.line()
            match line.peek():
                case "func":
                    line.take()
                    entries.append(self.function(line, line.name("@"), 0))
                case "adjoint" | "tangent" | "batched":
                    entries.append(self.declaration(line))
                case _:
                    raise line.error(f"expected 'func' or a declaration, found {line.peek()!r}")
        return Module(tuple(entries))

    def version(self) -> None:
        """Reads the first line, which names the version of the language."""
        if not self.lines:
            raise IRError(f"expected 'dlvm {VERSION}', found an empty text")
        line = self.line()
        if line.peek() != "dlvm":
            raise line.error(f"expected 'dlvm {VERSION}' on the first line")
        line.take()
        if (version := line.integer()) != VERSION:
            raise line.error(
                f"expected version {VERSION} of the IR, which this dlvm reads, found {version}"
            )
        line.end()

    def read_data(self) -> None:
        """Reads the data section, which comes last in the text, before anything refers to it."""
        kept: list[tuple[int, str]] = []
        for number, text in self.lines[self.place :]:
            if text.startswith("data "):
                self.datum(text, number)
            else:
                kept.append((number, text))
        self.lines, self.place = kept, 0

    def datum(self, text: str, number: int) -> None:
        """Reads one constant of the data section."""
        head, _, encoded = text.partition("=")
        line = Line(head, number)
        line.take("data")
        name = line.name("#")
        line.take(":")
        type_ = parse_type(line)
        line.end()
        try:
            raw = binascii.a2b_base64(encoded.strip(), strict_mode=True)
            array = np.frombuffer(raw, type_.dtype.numpy).reshape(
                [dims.evaluate(d, {}) for d in type_.shape]
            )
        except (ValueError, binascii.Error, DlvmError) as error:
            raise line.error(f"the data is not base64 of type {type_}: {error}") from None
        if name in self.data:
            raise line.error(f"two data entries are called #{name}")
        self.data[name] = array

    def function(self, line: Line, name: str, depth: int) -> Function:
        """Reads a function or region whose head is on this line."""
        if depth > MAX_NESTING:
            raise line.error("regions nested too deeply")
        env: dict[str, Value] = {}
        params: list[Param] = []
        line.take("(")
        while not line.accept(")"):
            params.append(self.param(line, env))
            if line.peek() != ")":
                line.take(",")
        line.take("->")
        written = self.result_types(line)
        line.take("{")
        line.end()
        with Builder() as builder:
            while (line := self.line()).peek() != "return":
                self.operation(line, env, depth)
        results = self.returned(line, env)
        if (found := [r.type for r in results]) != written:
            raise line.error(f"expected results {_listed(written)}, found {_listed(found)}")
        closing = self.line()
        closing.take("}")
        closing.end()
        return Function(name, tuple(params), tuple(builder.ops), tuple(results))

    def param(self, line: Line, env: dict[str, Value]) -> Param:
        """Reads ``%x: f32[3]``, followed by ``donated`` if the parameter is donated."""
        name = line.name("%")
        line.take(":")
        type_, sharding = parse_sharded(line)
        param = Param(type_, name, line.accept("donated"))
        param.sharding = sharding
        if f"%{name}" in env:
            line.at -= 1
            raise line.error(f"two parameters are called %{name}")
        env[f"%{name}"] = param
        return param

    def result_types(self, line: Line) -> list[TensorType]:
        """Reads ``f32`` or ``(f32, i64[3])``."""
        if not line.accept("("):
            return [parse_type(line)]
        types: list[TensorType] = []
        while not line.accept(")"):
            types.append(parse_type(line))
            if line.peek() != ")":
                line.take(",")
        return types

    def returned(self, line: Line, env: dict[str, Value]) -> list[Value]:
        """Reads ``return %0, %1``."""
        line.take("return")
        results: list[Value] = []
        while line.peek():
            results.append(self.value(line, env))
            if line.peek():
                line.take(",")
        return results

    def value(self, line: Line, env: dict[str, Value]) -> Value:
        """Reads the name of a value that is defined above."""
        found = env.get(line.tokens[line.at])
        if found is None:
            name = line.name("%")
            line.at -= 1
            raise line.error(f"%{name} is not defined above this line")
        line.at += 1
        return found

    def operation(self, line: Line, env: dict[str, Value], depth: int) -> None:
        """Reads one operation, with its regions on the lines that follow."""
        names = self.result_names(line)
        plan = self.plan(line)
        ordinal = self.ordinal
        self.ordinal += 1
        values = self.operands(line, plan, env)
        arrays = self.attributes(line, plan, values)
        types, shardings = self.types(line)
        for spec, raw in arrays:
            values[spec.name] = self.array(line, raw, types)
        for spec in plan.types:
            values[spec.name] = types
        for spec in plan.regions:
            head = self.line()
            head.take(spec.label)
            values[spec.name] = self.function(head, spec.label, depth + 1)
        op = self.construct(line, plan.cls, values)
        op.origin = Origin(self.file, line.number, ordinal)
        self.define(line, op, types, names, env)
        for result, sharding in zip(op.results, shardings, strict=True):
            result.sharding = sharding

    def result_names(self, line: Line) -> list[str]:
        """Reads ``%0, %1 =``; nothing for an operation without results."""
        names: list[str] = []
        while line.peek().startswith("%"):
            names.append(line.take())
            if not line.accept(","):
                line.take("=")
                break
        return names

    def plan(self, line: Line) -> Plan:
        """Reads the name of an operation; returns the plan of its class."""
        cls = OPS.get(line.peek())
        if cls is None:
            raise line.error(f"unknown operation {line.peek()!r}{did_you_mean(line.peek(), OPS)}")
        line.at += 1
        return plan_of(cls)

    def construct(self, line: Line, cls: type[Op], values: dict[str, Any]) -> Op:
        """Constructs the operation from its fields; errors are shown under the line."""
        missing = [s.label for s in cls.layout if s.required and s.name not in values]
        if missing:
            raise line.error(f"{cls.name} needs {', '.join(missing)}")
        try:
            return cls(**values)
        except DlvmError as error:
            raise line.error(str(error)) from None

    def define(
        self,
        line: Line,
        op: Op,
        types: tuple[TensorType, ...],
        names: list[str],
        env: dict[str, Value],
    ) -> None:
        """Compares the written types with the inferred ones, and names the results."""
        if op.result_types != types:
            raise line.error(
                f"{op.name}: expected results {_listed(op.result_types)}, found {_listed(types)}"
            )
        if len(names) != len(types):
            raise line.error(
                f"{op.name}: expected {len(types)} names of results, found {len(names)}"
            )
        for name, result in zip(names, op.results, strict=True):
            if name in env:
                raise line.error(f"{name} is defined twice")
            env[name] = result

    def operands(self, line: Line, plan: Plan, env: dict[str, Value]) -> dict[str, Any]:
        """Reads the operands that the class of the operation declares, in order."""
        values: dict[str, Any] = {}
        for i, spec in enumerate(plan.operands):
            if i:
                line.take(",")
            if spec.kind == "operand":
                values[spec.name] = self.value(line, env)
            else:
                values[spec.name] = self.value_list(line, env)
        return values

    def value_list(self, line: Line, env: dict[str, Value]) -> tuple[Value, ...]:
        """Reads ``[%a, %b]``."""
        line.take("[")
        values: list[Value] = []
        while not line.accept("]"):
            values.append(self.value(line, env))
            if line.peek() != "]":
                line.take(",")
        return tuple(values)

    def attributes(
        self, line: Line, plan: Plan, values: dict[str, Any]
    ) -> list[tuple[Spec, list[str] | str]]:
        """Reads ``name=value`` pairs; array literals remain text until their type is known."""
        arrays: list[tuple[Spec, list[str] | str]] = []
        while (label := line.peek()) and label != ":":
            spec = plan.attributes.get(label)
            if spec is None or spec.name in values:
                known = ", ".join(plan.attributes) or "none"
                raise line.error(f"{plan.cls.name} has no attribute {label!r} here; it has {known}")
            line.at += 1
            line.take("=")
            if spec.kind == "array":
                arrays.append((spec, self.raw_array(line)))
            else:
                values[spec.name] = self.attribute(line, spec)
        return arrays

    def attribute(self, line: Line, spec: Spec) -> Any:
        """Reads one value, which must be of the type of its field."""
        at = line.at
        value = parse_attribute(line)
        if not fits(value, spec.annotation):
            line.at = at
            raise line.error(f"{spec.label} must be of type {spec.annotation}, found {value}")
        return value

    def raw_array(self, line: Line) -> list[str] | str:
        """Reads the numbers of a constant, or the name of a data entry."""
        if line.peek().startswith("#"):
            return line.name("#")
        if not line.accept("["):
            return [self.element(line)]
        numbers: list[str] = []
        while not line.accept("]"):
            numbers.append(self.element(line))
            if line.peek() != "]":
                line.take(",")
        return numbers

    def element(self, line: Line) -> str:
        """Reads one number, or ``bits(0x...)`` for a NaN with a payload."""
        if not line.accept("bits"):
            return parse_number(line)
        line.take("(")
        token = line.peek()
        if not token.startswith("0x"):
            raise line.error(f"expected bits such as 0x7fc00001, found {token or END}")
        line.at += 1
        line.take(")")
        return token

    def types(self, line: Line) -> tuple[tuple[TensorType, ...], tuple[Sharding | None, ...]]:
        """Reads the types after the colon, each with its sharding; nothing without results."""
        if not line.peek():
            return (), ()
        line.take(":")
        found = [parse_sharded(line)]
        while line.accept(","):
            found.append(parse_sharded(line))
        line.end()
        return tuple(t for t, _ in found), tuple(s for _, s in found)

    def array(self, line: Line, raw: list[str] | str, types: tuple[TensorType, ...]) -> Array:
        """Converts a constant to an array of the written type."""
        if isinstance(raw, str):
            if raw not in self.data:
                raise line.error(f"no data entry #{raw}")
            return self.data[raw]
        if len(types) != 1:
            raise line.error(f"expected one type for a constant, found {len(types)}")
        try:
            flat = [_element(token, types[0].dtype) for token in raw]
            with np.errstate(all="ignore"):
                out = np.array(flat, types[0].dtype.numpy)
                endless = np.isinf(out) if types[0].dtype.is_float else np.zeros(0, bool)
            for i in np.flatnonzero(endless):
                if _finite(raw[i]):
                    raise ValueError(f"{raw[i]} is too large")
            out = out.reshape([dims.evaluate(d, {}) for d in types[0].shape])
        except (ValueError, OverflowError, DlvmError) as error:
            raise line.error(f"bad constant of type {types[0]}: {error}") from None
        out.setflags(write=False)
        return out

    def declaration(self, line: Line) -> Declaration:
        """Reads a declaration such as ``adjoint @df of @f wrt (1, 2) keep (0) seeded``."""
        kind, name = line.take(), line.name("@")
        line.take("of")
        of = line.name("@")
        given: dict[str, Any] = {}
        while word := line.peek():
            if word not in ("wrt", "keep", "axes", "seeded", "size") or word in given:
                raise line.error(f"unexpected {word!r} in a declaration")
            line.take()
            if word == "seeded":
                given[word] = True
            elif word == "size":
                given[word] = parse_dim(line)
            else:
                given[word] = self.positions(line)
        return Declaration(kind, name, of, **given)

    def positions(self, line: Line) -> tuple[int | None, ...]:
        """Reads ``(0, 2)``; ``none`` is an axis that is not batched."""
        line.take("(")
        items: list[int | None] = []
        while not line.accept(")"):
            items.append(None if line.accept("none") else line.integer())
            if line.peek() != ")":
                line.take(",")
        return tuple(items)


def _element(token: str, dtype: DType) -> Any:
    if token.startswith("0x"):
        bits = np.array(int(token, 16), f"u{dtype.numpy.itemsize}")
        return bits.view(dtype.numpy)[()]
    if token in ("true", "false"):
        return token == "true"
    return int(token) if dtype.is_integer else float(token)


def _finite(token: str) -> bool:
    """Whether a token is a number other than an infinity or a bit pattern."""
    return not token.startswith("0x") and "inf" not in token.lower()


def _listed(types: Any) -> str:
    return ", ".join(map(str, types)) or "no result"


def _without_comment(text: str) -> str:
    if "//" not in text:
        return text
    if '"' not in text and "=" not in text:
        return text.partition("//")[0]
    place = 0
    while (place := text.find("//", place)) >= 0:
        if text[:place].count('"') % 2 == 0 and not text.startswith("data "):
            return text[:place]
        place += 2
    return text


def parse(text: str, file: str = "<ir>") -> Module:
    """The module that the text describes; ``parse(str(m)) == m``."""
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise IRError(f"expected the text of a module, found a {type(text).__name__}")
    return Parser(text, file).module()
