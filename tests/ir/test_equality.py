"""Structural equality: the same up to the names of values, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from dlvm.ir import Module, parse
from dlvm.ops import Constant
from dlvm.testing.drawing.random_programs import EVERY, Program
from dlvm.testing.strategies import programs

BASE = """dlvm 1
func @f(%x: f32[3], %y: f32[3], %n: i64) -> f32[3] {
  %0 = add %x, %y : f32[3]
  %1 = slice %0 starts=(0) sizes=(3) steps=(1) : f32[3]
  %2 = checkpoint [%1, %y] : f32[3]
    body(%a: f32[3], %b: f32[3]) -> f32[3] {
      %0 = mul %a, %b : f32[3]
      return %0
    }
  %3 = constant value=1 : i64
  return %2
}
func @g() -> () {
  return
}
adjoint @df of @f wrt (0) seeded
"""
CHANGES = {
    "another operation": ("add %x, %y", "sub %x, %y"),
    "operands the other way round": ("add %x, %y", "add %y, %x"),
    "another attribute": ("starts=(0) sizes=(3) steps=(1)", "starts=(2) sizes=(3) steps=(-1)"),
    "another operation in the region": ("mul %a, %b", "add %a, %b"),
    "another capture": ("[%1, %y]", "[%0, %y]"),
    "another result": ("return %2", "return %1"),
    "another constant": ("value=1 ", "value=2 "),
    "another type of a constant": ("value=1 : i64", "value=1 : i32"),
    "a donated parameter": ("%y: f32[3],", "%y: f32[3] donated,"),
    "another parameter type": ("%n: i64", "%n: i32"),
    "an operation more": ("  return %2", "  %4 = neg %2 : f32[3]\n  return %2"),
    "another function name": ("@g", "@h"),
    "another declaration": ("wrt (0)", "wrt (1)"),
    "no seed": (" seeded", " keep (0) seeded"),
}


def changed(old: str, new: str) -> Module:
    assert BASE.count(old) == 1
    return parse(BASE.replace(old, new))


@pytest.mark.parametrize("what", CHANGES)
def test_a_difference_is_seen(what: str):
    assert parse(BASE) != changed(*CHANGES[what])


def test_names_of_values_make_no_difference():
    renamed = BASE.replace("%x", "%first").replace("%a", "%inner")
    assert parse(BASE) == parse(renamed)
    assert hash(parse(BASE)) == hash(parse(renamed))


def test_order_makes_a_difference():
    lines = BASE.splitlines(keepends=True)
    swapped = "".join([*lines[:12], lines[-1], *lines[12:-1]])
    assert parse(BASE) != parse(swapped)


@given(programs(EVERY))
def test_a_program_equals_its_reading_and_no_shorter_one(program: Program):
    again = parse(str(program.module))
    assert again == program.module
    assert program.module != Module(again.entries[:-1])


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (np.float32(0.0), np.float32(-0.0), False),
        (np.float32("nan"), np.float32("nan"), True),
        (np.int64(1), np.int32(1), False),
        (np.ones(2), np.ones((2, 1)), False),
        (np.ones(2), np.ones(2), True),
    ],
)
def test_constants_are_compared_by_their_bits(a, b, same: bool):
    first, second = Constant(np.asarray(a)), Constant(np.asarray(b))
    assert (first.key() == second.key()) == same
