"""The arena: what is in use at once lies apart, the rest shares, and sizes may be symbols."""

from __future__ import annotations

import pytest

from dlvm.gen.program.coalesce import coalesce
from dlvm.gen.program.control import to_program
from dlvm.gen.program.memory import Arena, intervals, plan
from dlvm.gen.program.steps import Program
from dlvm.ir import parse
from dlvm.ir.sizes.dims import evaluate, symbols
from tests.gen.control_cases import CASES


def planned(text: str) -> tuple[Program, Arena]:
    program = coalesce(to_program(parse("dlvm 1\n" + text).verify()))
    return program, plan(program)


def assert_apart(program: Program, arena: Arena, sizes: dict[str, int]) -> None:
    found = intervals(program)
    assert set(found) == set(arena.offsets)
    rooms = [(evaluate(arena.offsets[s], sizes), evaluate(s.bytes, sizes), s) for s in found]
    total = evaluate(arena.bytes, sizes)
    for start, size, storage in rooms:
        assert start % 64 == 0 and start + size <= total
        for other, more, rival in rooms:
            both = found[storage], found[rival]
            at_once = both[0].first <= both[1].last and both[1].first <= both[0].last
            if storage is not rival and at_once and size and more:
                assert start + size <= other or other + more <= start


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("size", [0, 1, 5, 64])
def test_what_is_in_use_at_once_lies_apart(case, size: int):
    program, arena = planned(case.text)
    assert_apart(program, arena, dict.fromkeys(program.symbols, size))


def chain(length: int, type_: str) -> str:
    lines = [f"%v0 = add %x, %x : {type_}"]
    lines += [f"%v{i} = mul %v{i - 1}, %x : {type_}" for i in range(1, length)]
    last = f"%s = sum %v{length - 1} axes=(0) : f32"
    return f"func @f(%x: {type_}) -> f32 {{\n" + "\n".join([*lines, last, "return %s", "}"])


def test_a_chain_needs_two_rooms_however_long():
    assert planned(chain(3, "f32[1000]"))[1].bytes == 2 * 4032
    assert planned(chain(30, "f32[1000]"))[1].bytes == 2 * 4032


def test_a_chain_of_unknown_size_needs_two_rooms_as_well():
    program, arena = planned(chain(30, "f32[N]"))
    assert set(symbols(arena.bytes)) == {"N"}
    assert_apart(program, arena, {"N": 3})
    sums = 4 + 2 * 64  # those of the chunks, and room to align them
    assert evaluate(arena.bytes, {"N": 1000}) <= 2 * (4000 + 64) + sums
    assert evaluate(arena.bytes, {"N": 0}) <= 128 + sums


def test_branches_share_and_trips_reuse():
    work = """
      %a = add %x, %x : f32[1000]
      %b = mul %a, %x : f32[1000]
      %s = sum %b axes=(0) : f32
      return %s
    """
    text = f"""
    func @f(%x: f32[1000], %p: bool) -> f32 {{
      %0 = cond %p, [%x] : f32
        then(%x: f32[1000]) -> f32 {{{work}}}
        otherwise(%x: f32[1000]) -> f32 {{{work}}}
      return %0
    }}
    """
    assert planned(text.replace("}\n        otherwise", "}\notherwise"))[1].bytes == 2 * 4032


def test_smaller_values_share_the_room_of_a_large_one_that_is_gone():
    text = """
    func @f(%x: f32[1024]) -> f32 {
      %big = add %x, %x : f32[1024]
      %r = reshape %big shape=(4,256) : f32[4,256]
      %a = sum %r axes=(0) : f32[256]
      %b = add %a, %a : f32[256]
      %c = mul %a, %b : f32[256]
      %d = sum %c axes=(0) : f32
      return %d
    }
    """
    assert planned(text)[1].bytes == 4096 + 1024
