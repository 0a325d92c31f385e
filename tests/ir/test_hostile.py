"""Damaged text gives an ``IRError`` or a module that reads back; never another exception."""

from __future__ import annotations

import time
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dlvm.errors import IRError
from dlvm.ir import Module, parse
from tests.programs import EVERY, Program, programs

MANY = settings(max_examples=6 * settings().max_examples)
PIECES = (
    *("%0", "%x0", "%", "@f0", "@", "#0", "f32", "f32[", "]", "(", ")", "{", "}", "[", ",", ":"),
    *("=", "->", "-", "+", "*", "0", "1", "99999999999999999999", "1.5", "1e999", "0x1", "nan"),
    *("inf", "true", "none", '"', '"\\u', "A", "B", "floordiv(A,0)", "mod(A,", "bits(0x7fc1)"),
    *("sum", "axes=(0)", "return", "func", "data #0 :", "adjoint", "//", "\n", " ", "\0", "²", "é"),
)


def survives(text: str) -> None:
    """Either refused as IR, or a module whose text reads back."""
    start = time.perf_counter()
    try:
        module = parse(text)
        module.verify()
    except IRError:
        pass
    else:
        again = str(module)
        assert str(parse(again)) == again
    assert time.perf_counter() - start < 5


@st.composite
def damaged(draw: Any, program: st.SearchStrategy[Program]) -> str:
    """The text of a program, cut, doubled and mixed with pieces of the language."""
    text = str(draw(program).module)
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted(draw(st.tuples(*[st.integers(0, len(text))] * 2)))
        piece = draw(st.sampled_from(PIECES))
        match draw(st.integers(0, 4)):
            case 0:
                text = text[:at] + piece + text[at:]
            case 1:
                text = text[:at] + piece + text[at + len(piece) :]
            case 2:
                text = text[:at] + text[min(end, at + 8) :]
            case 3:
                text = text[:end] + text[at:]
            case _:
                text = swapped(text, at, end)
    return text


def swapped(text: str, at: int, end: int) -> str:
    """Two lines exchanged."""
    lines = text.split("\n")
    i, j = text[:at].count("\n"), text[:end].count("\n")
    lines[i], lines[j] = lines[j], lines[i]
    return "\n".join(lines)


@MANY
@given(damaged(programs(EVERY)))
def test_a_damaged_program_is_refused_or_read(text: str):
    survives(text)


@given(st.text())
def test_any_text_is_refused_or_read(text: str):
    survives(text)
    survives("dlvm 1\n" + text)


@given(st.binary())
def test_any_bytes_are_refused_or_read(raw: bytes):
    survives("dlvm 1\nfunc @f(" + raw.decode("latin1"))


@MANY
@given(st.lists(st.sampled_from(PIECES), max_size=20))
def test_any_words_of_the_language_are_refused_or_read(pieces: list[str]):
    survives("dlvm 1\nfunc @f(%x0: f32[A]) -> f32[A] {\n  %0 = " + " ".join(pieces))
    survives("dlvm 1\nfunc @f(%x0: f32[" + " ".join(pieces))


def test_deep_nesting_is_refused_not_followed():
    deep = (
        "dlvm 1\nfunc @f(%c: bool) -> bool {\n"
        + "  %0 = cond %c, [%c] : bool\nthen(%c: bool) -> bool {\n" * 500
    )
    survives(deep)
    survives("dlvm 1\nfunc @f(%c: f32[" + "max(A," * 10_000)
    survives("dlvm 1\nfunc @f(%c: f32[" + "+A" * 10_000 + "]) -> () {\n  return\n}\n")
    survives(
        "dlvm 1\nfunc @f(%c: f32[" + "max(A+B," * 30 + "1" + ")" * 30 + "]) -> () {\n  return\n}\n"
    )


def test_a_module_that_was_read_is_a_module():
    assert isinstance(parse("dlvm 1\n"), Module)
