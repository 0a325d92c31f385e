"""Damaged text gives an ``IRError`` or a module that reads back; never another exception."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dlvm.ir import Module, parse
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import Drawn, programs
from tests.damage import PIECES, damaged, survives

MANY = settings(max_examples=6 * settings().max_examples)


@MANY
@given(programs(EVERY), st.data())
def test_a_damaged_program_is_refused_or_read(program: Program, data: st.DataObject):
    survives(damaged(Drawn(data.draw), str(program.module)))


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
