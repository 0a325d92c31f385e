"""One line of IR text: its tokens, and the types, sizes and attribute values in it.

This file knows no operations. A line knows its number and its current token, so that every error is
shown with a caret under the token that it is about.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from dlvm.base.errors import IRError, ShapeError
from dlvm.ir.core import MAX_NESTING, FunctionRef
from dlvm.ir.sharding.mesh import Axes, Sharding, shares
from dlvm.ir.sizes import dims
from dlvm.ir.types import DTYPES, DType, TensorType

MAX_SIZE_NESTING = 32
END = "the end of the line"
TOKEN = re.compile(
    r"[%@][\w.]+|#\d+"
    r'|"(?:[^"\\]|\\.)*"'
    r"|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|0x[0-9a-fA-F]+|\d+"
    r"|[A-Za-z_][\w.]*|->|\S"
)


class Line:
    """The tokens of one line and a position among them; a character that fits no token is one."""

    __slots__ = ("at", "number", "text", "tokens")

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number = text, number
        self.tokens: list[str] = [*TOKEN.findall(text), ""]
        self.at = 0

    def error(self, message: str) -> IRError:
        """An error that shows the line, with a caret under the current token."""
        columns = [found.start() for found in TOKEN.finditer(self.text)]
        columns.append(len(self.text.rstrip()))
        column = columns[min(self.at, len(columns) - 1)]
        shown, start = self.text.rstrip(), max(0, column - 90)
        excerpt = shown[start : start + 120]
        return IRError(
            f"line {self.number}: {message}\n   | {excerpt}\n   | {' ' * (column - start)}^"
        )

    def peek(self) -> str:
        """The next token, or an empty string at the end."""
        return self.tokens[self.at]

    def take(self, expected: str = "") -> str:
        """Takes the next token, which must be ``expected`` if that is given."""
        token = self.tokens[self.at]
        if not token or (expected and token != expected):
            raise self.error(f"expected {expected or 'more'}, found {token or END}")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Takes the next token if it is this one; returns whether it was."""
        found = self.tokens[self.at] == token
        self.at += found
        return found

    def name(self, sigil: str) -> str:
        """Takes a name that starts with the sigil; returns it without the sigil."""
        token = self.peek()
        if not token.startswith(sigil) or len(token) == len(sigil):
            raise self.error(f"expected a name starting with {sigil}, found {token or END}")
        self.at += 1
        return token[len(sigil) :]

    def integer(self) -> int:
        """Takes an integer."""
        sign = -1 if self.accept("-") else 1
        token = self.peek()
        if not is_whole(token) or len(token) > 40:
            raise self.error(f"expected an integer, found {token or END}")
        self.at += 1
        return sign * int(token)

    def end(self) -> None:
        """Checks that the line ends here."""
        if self.peek():
            raise self.error(f"expected {END}, found {self.peek()!r}")


def is_whole(token: str) -> bool:
    """Whether a token consists of ASCII digits; other digits of Unicode are refused."""
    return token.isdigit() and token.isascii()


# -- values on one line ---------------------------------------------------------------------


def parse_type(line: Line) -> TensorType:
    """Reads ``f32`` or ``f32[B,784]``; the result is cached, since a program has few types."""
    at, tokens = line.at, line.tokens
    if tokens[at] and tokens[at + 1] == "[" and "]" in tokens[at:]:
        known = _known_type(tuple(tokens[at : tokens.index("]", at) + 1]))
        if known is not None:
            line.at = tokens.index("]", at) + 1
            return known
    return _read_type(line)


@lru_cache(1024)
def _known_type(tokens: tuple[str, ...]) -> TensorType | None:
    line = Line(" ".join(tokens), 0)
    try:
        found = _read_type(line)
    except IRError:
        return None
    return None if line.peek() else found


def parse_sharded(line: Line) -> tuple[TensorType, Sharding | None]:
    """Reads a type, with the axes of a mesh that share its axes: ``f32[512@data,256]``."""
    if "@" not in line.text:
        return parse_type(line), None
    axes: list[Axes] = []
    return _read_type(line, axes), shares(tuple(axes))


def _read_type(line: Line, axes: list[Axes] | None = None) -> TensorType:
    """Reads a type; ``axes`` collects what shares each of its axes, which else is not read."""
    dtype = DTYPES.get(line.peek())
    if dtype is None:
        raise line.error(f"expected a type such as f32[3,4], found {line.peek() or END}")
    line.take()
    shape: list[dims.Dim] = []
    if line.accept("["):
        while not line.accept("]"):
            shape.append(parse_dim(line))
            if axes is not None:
                axes.append(_parse_axes(line))
            if line.peek() != "]":
                line.take(",")
    try:
        return TensorType(dtype, tuple(shape))
    except ShapeError as error:
        raise line.error(error.message) from None


def _parse_axes(line: Line) -> Axes:
    """Reads ``@data+model``; nothing where the axis is whole."""
    if not line.peek().startswith("@"):
        return ()
    names = [line.name("@")]
    while line.accept("+"):
        if not line.peek().isidentifier():
            raise line.error(f"expected the name of an axis, found {line.peek() or END}")
        names.append(line.take())
    return tuple(names)


def parse_dim(line: Line, depth: int = 0) -> dims.Dim:
    """Reads a size: a sum of products of integers, symbols and calls such as ``floordiv(a,b)``."""
    if depth > MAX_SIZE_NESTING:
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
    if is_whole(token):
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
    raise line.error(f"expected a size, found {token or END}")


def parse_attribute(line: Line, depth: int = 0) -> Any:
    """Reads an attribute value of any kind; its first token tells which kind it is."""
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
        return float(parse_number(line))
    return parse_dim(line)


def _parse_string(line: Line) -> str:
    import json

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


def parse_number(line: Line) -> str:
    """Reads a number with its sign, as text."""
    sign = "-" if line.accept("-") else ""
    token = line.take()
    if token not in ("inf", "nan", "true", "false") and not token[0].isdigit():
        raise line.error(f"expected a number, found {token}")
    return sign + token
