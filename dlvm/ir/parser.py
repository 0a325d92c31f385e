"""Reads IR text back, exactly and within limits; every mistake is shown under its line.

Recursive descent over one line at a time. Operations are built by their class from fields, so
no operation has parsing code of its own; every operation of the text is kept, dead or not.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
import re
from typing import Any

import numpy as np

from dlvm.errors import DlvmError, IRError, Origin

from . import dims
from .core import OPS, Builder, Declaration, Function, FunctionRef, Op, Param, Spec, Value
from .module import Module
from .printer import VERSION
from .types import DTYPES, Array, DType, TensorType

MAX_NESTING = 200
TOKEN = re.compile(
    r"\s*(?:(%[\w.]+|@[\w.]+|#\d+)"
    r'|("(?:[^"\\]|\\.)*")'
    r"|(\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|0x[0-9a-fA-F]+|\d+)"
    r"|([A-Za-z_][\w.]*)"
    r"|(->|[-+*()\[\]{},:=])|(\S))"
)


class Line:
    """The tokens of one line and a place among them."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number = text, number
        self.tokens: list[str] = []
        self.columns: list[int] = []
        self.at = 0
        end = len(text)
        while end and text[end - 1].isspace():
            end -= 1
        place = 0
        while place < end:
            found = TOKEN.match(text, place)
            assert found is not None
            if found[6] is not None:
                self.columns.append(found.start(6))
                raise self.error(f"unexpected character {found[6]!r}")
            self.tokens.append(found[found.lastindex or 0])
            self.columns.append(found.start(found.lastindex or 0))
            place = found.end()

    def error(self, message: str) -> IRError:
        """The mistake, with the line and a caret under the token it is about."""
        column = self.columns[min(self.at, len(self.columns) - 1)] if self.columns else 0
        if self.at >= len(self.tokens) and self.tokens:
            column = len(self.text.rstrip())
        shown, start = self.text.rstrip(), max(0, column - 90)
        excerpt = shown[start : start + 120]
        return IRError(
            f"line {self.number}: {message}\n   | {excerpt}\n   | {' ' * (column - start)}^"
        )

    def peek(self) -> str:
        """The next token, or nothing at the end."""
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        """The next token, which must be the one expected if one is named."""
        token = self.peek()
        if not token or (expected and token != expected):
            raise self.error(
                f"expected {expected or 'more'}, found {token or 'the end of the line'}"
            )
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Take the next token if it is this one."""
        found = self.peek() == token
        self.at += found
        return found

    def name(self, sigil: str) -> str:
        """A name that starts with the sigil, without it."""
        token = self.peek()
        if not token.startswith(sigil) or len(token) == len(sigil):
            raise self.error(f"expected a name starting with {sigil}, found {token or 'the end'}")
        self.at += 1
        return token[len(sigil) :]

    def integer(self) -> int:
        """A whole number."""
        sign = -1 if self.accept("-") else 1
        token = self.peek()
        if not token.isdigit() or len(token) > 40:
            raise self.error(f"expected an integer, found {token or 'the end of the line'}")
        self.at += 1
        return sign * int(token)

    def end(self) -> None:
        """Nothing may follow."""
        if self.peek():
            raise self.error(f"unexpected {self.peek()!r} at the end of the line")


# -- values on one line ---------------------------------------------------------------------


def parse_type(line: Line) -> TensorType:
    """``f32`` or ``f32[B,784]``."""
    dtype = DTYPES.get(line.peek())
    if dtype is None:
        raise line.error(f"expected a type such as f32[3,4], found {line.peek() or 'the end'}")
    line.take()
    shape: list[dims.Dim] = []
    if line.accept("["):
        while not line.accept("]"):
            shape.append(parse_dim(line))
            if line.peek() != "]":
                line.take(",")
    return TensorType(dtype, tuple(shape))


def parse_dim(line: Line, depth: int = 0) -> dims.Dim:
    """A sum of products of integers, symbols and ``floordiv(a,b)`` and its like."""
    if depth > MAX_NESTING:
        raise line.error("sizes nested too deeply")
    negative = line.accept("-")
    total = _parse_product(line, depth)
    total = -total if negative else total
    while line.peek() in ("+", "-"):
        sign = 1 if line.take() == "+" else -1
        total = total + _parse_product(line, depth) * sign
    return total


def _parse_product(line: Line, depth: int) -> dims.Dim:
    out = _parse_factor(line, depth)
    while line.accept("*"):
        out = out * _parse_factor(line, depth)
    return out


_FUNCTIONS = {
    "floordiv": dims.floordiv,
    "mod": dims.mod,
    "min": dims.minimum,
    "max": dims.maximum,
}


def _parse_factor(line: Line, depth: int) -> dims.Dim:
    token = line.peek()
    if token.isdigit():
        return line.integer()
    if token in _FUNCTIONS and line.tokens[line.at + 1 : line.at + 2] == ["("]:
        line.take()
        line.take("(")
        a = parse_dim(line, depth + 1)
        line.take(",")
        b = parse_dim(line, depth + 1)
        line.take(")")
        return _FUNCTIONS[token](a, b)
    if token.isidentifier() and token not in DTYPES:
        return dims.symbol(line.take())
    raise line.error(f"expected a size, found {token or 'the end of the line'}")


def parse_attribute(line: Line, depth: int = 0) -> Any:
    """Any attribute value; its text says what it is."""
    if depth > MAX_NESTING:
        raise line.error("attributes nested too deeply")
    token = line.peek()
    if token in ("none", "true", "false"):
        line.take()
        return {"none": None, "true": True, "false": False}[token]
    if token.startswith('"'):
        return _parse_string(line)
    if token.startswith("@"):
        return FunctionRef(line.name("@"))
    if line.accept("("):
        items: list[Any] = []
        while not line.accept(")"):
            items.append(parse_attribute(line, depth + 1))
            if line.peek() != ")":
                line.take(",")
        return tuple(items)
    if token in DTYPES:
        return _parse_dtype_or_type(line)
    if _is_float(line):
        return float(_parse_number(line))
    return parse_dim(line)


def _parse_string(line: Line) -> str:
    try:
        return str(json.loads(line.peek()))
    except json.JSONDecodeError as error:
        raise line.error(f"bad string: {error.msg}") from None
    finally:
        line.at += 1


def _parse_dtype_or_type(line: Line) -> DType | TensorType:
    if line.tokens[line.at + 1 : line.at + 2] == ["["]:
        return parse_type(line)
    return DTYPES[line.take()]


def _is_float(line: Line) -> bool:
    token = (
        line.tokens[line.at + 1]
        if line.peek() == "-" and line.at + 1 < len(line.tokens)
        else line.peek()
    )
    return token in ("inf", "nan") or (
        token[:1].isdigit() and not token.startswith("0x") and any(c in token for c in ".eE")
    )


def _parse_number(line: Line) -> str:
    sign = "-" if line.accept("-") else ""
    token = line.take()
    if token not in ("inf", "nan", "true", "false") and not token[0].isdigit():
        raise line.error(f"expected a number, found {token}")
    return sign + token


class Parser:
    """Reads one module; holds the lines, the data section and the place."""

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
        """The next line that is not empty."""
        if self.place >= len(self.lines):
            raise IRError("the text ends in the middle of a function")
        number, text = self.lines[self.place]
        self.place += 1
        return Line(text, number)

    def module(self) -> Module:
        """The whole module."""
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
        """The first line names the version of the language."""
        if not self.lines:
            raise IRError(f"expected 'dlvm {VERSION}', found an empty text")
        line = self.line()
        if line.peek() != "dlvm":
            raise line.error(f"expected 'dlvm {VERSION}' on the first line")
        line.take()
        if (version := line.integer()) != VERSION:
            raise line.error(
                f"this is version {version} of the IR; this dlvm reads version {VERSION}"
            )
        line.end()

    def read_data(self) -> None:
        """Take the data section, which stands last, before anything refers to it."""
        kept: list[tuple[int, str]] = []
        for number, text in self.lines[self.place :]:
            if text.startswith("data "):
                self.datum(text, number)
            else:
                kept.append((number, text))
        self.lines, self.place = kept, 0

    def datum(self, text: str, number: int) -> None:
        """One constant of the data section."""
        head, _, encoded = text.partition("=")
        line = Line(head, number)
        line.take("data")
        name = line.name("#")
        line.take(":")
        type_ = parse_type(line)
        line.end()
        try:
            raw = base64.b64decode(encoded.strip(), validate=True)
            array = np.frombuffer(raw, type_.dtype.numpy).reshape(
                [dims.evaluate(d, {}) for d in type_.shape]
            )
        except (ValueError, binascii.Error, DlvmError) as error:
            raise line.error(f"bad data for {type_}: {error}") from None
        if name in self.data:
            raise line.error(f"two data entries are called #{name}")
        self.data[name] = array

    def function(self, line: Line, name: str, depth: int) -> Function:
        """A function or region whose head is on this line."""
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
        builder = Builder()
        while (line := self.line()).peek() != "return":
            self.operation(line, env, builder, depth)
        results = self.returned(line, env)
        if (found := [r.type for r in results]) != written:
            raise line.error(f"expected results {written}, found {found}")
        closing = self.line()
        closing.take("}")
        closing.end()
        return Function(name, tuple(params), tuple(builder.ops), tuple(results))

    def param(self, line: Line, env: dict[str, Value]) -> Param:
        """``%x: f32[3]``, with ``donated`` after it where that holds."""
        name = line.name("%")
        line.take(":")
        param = Param(parse_type(line), name, line.accept("donated"))
        if name in env:
            line.at -= 1
            raise line.error(f"two parameters are called %{name}")
        env[name] = param
        return param

    def result_types(self, line: Line) -> list[TensorType]:
        """``f32`` or ``(f32, i64[3])``."""
        if not line.accept("("):
            return [parse_type(line)]
        types: list[TensorType] = []
        while not line.accept(")"):
            types.append(parse_type(line))
            if line.peek() != ")":
                line.take(",")
        return types

    def returned(self, line: Line, env: dict[str, Value]) -> list[Value]:
        """``return %0, %1``."""
        line.take("return")
        results: list[Value] = []
        while line.peek():
            results.append(self.value(line, env))
            if line.peek():
                line.take(",")
        return results

    def value(self, line: Line, env: dict[str, Value]) -> Value:
        """A value that was defined above."""
        name = line.name("%")
        if name not in env:
            line.at -= 1
            raise line.error(f"%{name} is not defined above this line")
        return env[name]

    def operation(self, line: Line, env: dict[str, Value], builder: Builder, depth: int) -> None:
        """One operation, with its regions on the lines that follow."""
        names: list[str] = []
        while line.peek().startswith("%"):
            names.append(line.name("%"))
            if not line.accept(","):
                line.take("=")
                break
        start = line.at
        cls = OPS.get(line.take())
        if cls is None:
            line.at = start
            close = difflib.get_close_matches(line.peek(), OPS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise line.error(f"unknown operation {line.peek()!r}{hint}")
        ordinal = self.ordinal
        self.ordinal += 1
        values = self.operands(line, cls, env)
        arrays = self.attributes(line, cls, values)
        types = self.types(line)
        for spec, raw in arrays:
            values[spec.name] = self.array(line, raw, types)
        for spec in cls.layout:
            if spec.kind == "types":
                values[spec.name] = tuple(types)
            elif spec.kind == "region":
                head = self.line()
                head.take(spec.label)
                values[spec.name] = self.function(head, spec.label, depth + 1)
        with builder:
            op = self.construct(line, cls, values)
        op.origin = Origin(self.file, line.number, ordinal)
        if list(op.result_types) != types:
            raise line.error(
                f"{op.name} gives {_listed(op.result_types)}, but {_listed(types)} is written"
            )
        if len(names) != len(types):
            raise line.error(
                f"{op.name} has {len(types)} results, but {len(names)} names are written"
            )
        for name, result in zip(names, op.results, strict=True):
            if name in env:
                raise line.error(f"%{name} is defined twice")
            env[name] = result

    def construct(self, line: Line, cls: type[Op], values: dict[str, Any]) -> Op:
        """The operation from its fields, with errors under the line."""
        try:
            return cls(**values)
        except DlvmError as error:
            raise line.error(str(error)) from None
        except (TypeError, ValueError, AttributeError, IndexError) as error:
            raise line.error(f"{cls.name}: {error}") from None

    def operands(self, line: Line, cls: type[Op], env: dict[str, Value]) -> dict[str, Any]:
        """The operands that the class names, in order."""
        values: dict[str, Any] = {}
        specs = [s for s in cls.layout if s.kind in ("operand", "operands")]
        for i, spec in enumerate(specs):
            if i:
                line.take(",")
            if spec.kind == "operand":
                values[spec.name] = self.value(line, env)
            else:
                values[spec.name] = self.value_list(line, env)
        return values

    def value_list(self, line: Line, env: dict[str, Value]) -> tuple[Value, ...]:
        """``[%a, %b]``."""
        line.take("[")
        values: list[Value] = []
        while not line.accept("]"):
            values.append(self.value(line, env))
            if line.peek() != "]":
                line.take(",")
        return tuple(values)

    def attributes(
        self, line: Line, cls: type[Op], values: dict[str, Any]
    ) -> list[tuple[Spec, list[str] | str]]:
        """``name=value`` pairs; array literals are left raw until the type is known."""
        specs = {s.label: s for s in cls.layout if s.kind in ("attribute", "array")}
        arrays: list[tuple[Spec, list[str] | str]] = []
        while line.peek() and line.peek() != ":":
            name = line.take()
            if name not in specs or specs[name].name in values:
                line.at -= 1
                known = ", ".join(specs) or "none"
                raise line.error(f"{cls.name} has no attribute {name!r} here; it has {known}")
            line.take("=")
            if specs[name].kind == "array":
                arrays.append((specs[name], self.raw_array(line)))
            else:
                values[specs[name].name] = parse_attribute(line)
        return arrays

    def raw_array(self, line: Line) -> list[str] | str:
        """The numbers of a constant, or the name of a data entry."""
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
        """One number, or ``bits(0x...)`` for a NaN with a payload."""
        if not line.accept("bits"):
            return _parse_number(line)
        line.take("(")
        token = line.take()
        line.take(")")
        return token

    def types(self, line: Line) -> list[TensorType]:
        """The types after the colon; none for an operation without results."""
        if not line.peek():
            return []
        line.take(":")
        types = [parse_type(line)]
        while line.accept(","):
            types.append(parse_type(line))
        line.end()
        return types

    def array(self, line: Line, raw: list[str] | str, types: list[TensorType]) -> Array:
        """A constant of the written type."""
        if isinstance(raw, str):
            if raw not in self.data:
                raise line.error(f"no data entry #{raw}")
            return self.data[raw]
        if len(types) != 1:
            raise line.error("a constant has one type")
        try:
            flat = [_element(token, types[0].dtype) for token in raw]
            out = np.array(flat, types[0].dtype.numpy).reshape(
                [dims.evaluate(d, {}) for d in types[0].shape]
            )
        except (ValueError, OverflowError, DlvmError) as error:
            raise line.error(f"bad constant of type {types[0]}: {error}") from None
        out.setflags(write=False)
        return out

    def declaration(self, line: Line) -> Declaration:
        """``adjoint @df of @f wrt (1, 2) keep (0) seeded``."""
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
        """``(0, 2)``; ``none`` where an axis is not batched."""
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
    return Parser(text, file).module()
