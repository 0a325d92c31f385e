"""Text that somebody has damaged, and what every reader owes it: to refuse it, or to read it."""

from __future__ import annotations

from dlvm.base.errors import IRError
from dlvm.ir import Module, parse
from dlvm.testing.drawing.dice import Dice

PIECES = (
    *("%0", "%x0", "%", "@f0", "@", "#0", "f32", "f32[", "]", "(", ")", "{", "}", "[", ",", ":"),
    *("=", "->", "-", "+", "*", "0", "1", "99999999999999999999", "1.5", "1e999", "0x1", "nan"),
    *("inf", "true", "none", '"', '"\\u', "A", "B", "floordiv(A,0)", "mod(A,", "bits(0x7fc1)"),
    *("sum", "axes=(0)", "return", "func", "data #0 :", "adjoint", "//", "\n", " ", "\0", "²", "é"),
)


def survives(text: str) -> Module | None:
    """Either refused as IR, or a module whose text reads back."""
    try:
        module = parse(text)
        module.verify()
    except IRError:
        module = None
    else:
        again = str(module)
        assert str(parse(again)) == again
    return module


def damaged(dice: Dice, text: str) -> str:
    """A text cut, doubled and mixed with pieces of the language."""
    for _ in range(dice.integer(1, 4)):
        at, end = sorted(dice.integer(0, len(text)) for _ in range(2))
        piece = dice.choose(PIECES)
        match dice.integer(0, 5):
            case 0:
                text = text[:at] + piece + text[at:]
            case 1:
                text = text[:at] + piece + text[at + len(piece) :]
            case 2:
                text = text[:at] + text[min(end, at + 8) :]
            case 3:
                text = text[:end] + text[at:]
            case 4:
                text = other_number(dice, text, at)
            case _:
                text = swapped(text, at, end)
    return text


def other_number(dice: Dice, text: str, at: int) -> str:
    """The next digit from here on is another one."""
    for i in range(at, len(text)):
        if text[i].isdecimal():
            return f"{text[:i]}{dice.integer(0, 9)}{text[i + 1 :]}"
    return text


def swapped(text: str, at: int, end: int) -> str:
    """Two lines exchanged."""
    lines = text.split("\n")
    i, j = text[:at].count("\n"), text[:end].count("\n")
    lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)
