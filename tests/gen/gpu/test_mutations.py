"""Mistakes in the PTX of kernels, one at a time: the emulator notices each of them.

Either it says what no GPU may do, or a result is another one than that of the right text.
"""

import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.gpu.emulator.machine import EmulatorError
from dlvm.ir import DTYPES

from .kinds import KINDS, f32

BF16 = DTYPES["bf16"].numpy
HALVES = f32(70, 40).astype(BF16), f32(40, 66).astype(BF16)
MORE = {
    "halves": (lambda a, b: a @ b, HALVES),
    "sort": (lambda x: dlvm.sort(x, axis=1), (f32(5, 20),)),
    "wrong indices": (lambda a, i: a[i], (f32(5, 200), np.arange(-9, 200))),
}
PROGRAMS = KINDS | MORE


@dataclass(frozen=True)
class Mistake:
    """The ``nth`` match of a pattern in a program's PTX is replaced."""

    kind: str
    program: str
    pattern: str
    replacement: str
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.program}-{self.nth}"


def mistakes(kind, pattern, replacement, *places):
    return [Mistake(kind, name, pattern, replacement, nth) for name, nth in places]


BARRIER = r"\tbar\.sync \t0;\n"
IN_BOTH_BRANCHES = """{
.reg .pred %odd; .reg .b32 %lane; .reg .b32 %bit;
mov.u32 %lane, %tid.x; and.b32 %bit, %lane, 1; setp.eq.b32 %odd, %bit, 1;
@%odd bra $odd; bar.sync 0; bra $both;
$odd: bar.sync 0;
$both:
}
"""
OF_SOME_LANES = """{
.reg .pred %few; .reg .b32 %lane;
mov.u32 %lane, %tid.x; setp.lt.u32 %few, %lane, 7;
@%few bar.sync 0;
}
"""
GUARD = r"\t@%p\d+ bra \t\$L__BB\d+_\d+;\n"
TID = r"mov\.u32 \t(%r\d+), %tid\.x;"
DOWN = r"shfl\.sync\.down\.b32 \t(.*), (\d+), 31, -1;"
PRODUCT = r"\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\},(\s+)\{(%r\d+), (%r\d+)\},"
MISTAKES = (
    *mistakes(
        "a barrier is missing",
        BARRIER,
        "",
        ("product", 0),
        ("product", 1),
        ("halves", 0),
        ("halves", 1),
        ("transpose", 0),
    ),
    *mistakes("a barrier is missing", r"\tbar\.warp\.sync \t-1;\n", "", ("softmax", 0)),
    *mistakes(
        "a barrier in both branches",
        BARRIER,
        IN_BOTH_BRANCHES,
        ("product", 0),
        ("halves", 1),
        ("transpose", 0),
    ),
    *mistakes("a barrier of some lanes", BARRIER, OF_SOME_LANES, ("product", 1), ("transpose", 0)),
    *mistakes(
        "a guard is missing",
        GUARD,
        "",
        ("gelu", 3),
        ("product", 4),
        ("dense", 3),
        ("axpy", 3),
        ("transpose", 3),
    ),
    *mistakes(
        "another lane",
        TID,
        r"mov.u32 \t\1, 0;",
        ("axpy", 0),
        ("softmax", 0),
        ("transpose", 0),
        ("product", 0),
    ),
    *mistakes(
        "a shuffle of another distance",
        DOWN,
        r"shfl.sync.down.b32 \t\1, 1, 31, -1;",
        ("softmax", 4),
        ("layer norm", 1),
    ),
    *mistakes("a shuffle the other way", r"shfl\.sync\.down", "shfl.sync.up", ("layer norm", 2)),
    *mistakes("a shuffle the other way", r"shfl\.sync\.idx", "shfl.sync.down", ("layer norm", -1)),
    *mistakes(
        "a mask of half a warp", r", 31, -1;", ", 31, 65535;", ("softmax", 0), ("layer norm", 3)
    ),
    *mistakes("a clamp", r", 31, -1;", ", 15, -1;", ("layer norm", 0), ("softmax", 7)),
    *mistakes("a segment", r", 16, 31, -1;", ", 16, 4127, -1;", ("layer norm", 0), ("softmax", 1)),
    *mistakes(
        "other threads than the launch",
        r"\.reqntid 128",
        ".reqntid 96",
        ("gelu", 0),
        ("product", 0),
    ),
    *mistakes(
        "an alignment that does not hold",
        r"\.v4\.b32 (.*)\[(%rd\d+)\]",
        r".v4.b32 \1[\2+4]",
        ("axpy", 0),
    ),
    *mistakes(
        "the status is claimed by nobody",
        r"atom\.\S+ \t(%rd\d+), (\[%rd\d+\]), 0, 1;",
        r"ld.global.b64 \t\1, \2;",
        ("wrong indices", 0),
    ),
    *mistakes(
        "past the end through a choice",
        r"(\tselp\.b64 \t(%rd\d+), .*;)",
        r"\1\n\tadd.s64 \t\2, \2, 1048576;",
        ("gather", 0),
    ),
    *mistakes(
        "a function reads past the end",
        r"add\.s64 \t(%rd\d+), (%rd\d+), 4;",
        r"add.s64 \t\1, \2, 4004;",
        ("sort", 0),
    ),
    *mistakes("another offset", r"\+32\]", "+36]", ("product", 0)),
    *mistakes("another offset", r"\[(%rd\d+)\+1056\]", r"[\1+1060]", ("transpose", 0)),
    *mistakes("another offset", r"\+-8\]", "+-4]", ("product", 0)),
    *mistakes("registers change places", PRODUCT, r"{\1, \3, \2, \4},\5{\6, \7},", ("halves", 1)),
    *mistakes("registers change places", PRODUCT, r"{\1, \2, \3, \4},\5{\7, \6},", ("halves", 0)),
    *mistakes(
        "a sum starts again", r"(fma\.rn\.f32 .*), %r\d+;", r"\1, 0f00000000;", ("product", 0)
    ),
    *mistakes("another array", r"panel_\$_y;", "panel_$_x;", ("product", 0)),
    *mistakes("another space", r"ld\.shared", "ld.global", ("product", 0), ("halves", 0)),
    *mistakes("another space", r"st\.global", "st.shared", ("gelu", 0)),
    *mistakes("a result is not written", r"\tst\.global.*\n", "", ("softmax", 0), ("dense", 0)),
    *mistakes("a shared element is not written", r"\tst\.shared.*\n", "", ("transpose", 2)),
    *mistakes("a register is not set", r"\tmov\.b32 \t%r\d+, 0f00000000;\n", "", ("product", 0)),
    *mistakes("rounding is left open", r"(add|mul)\.rn\.f32", r"\1.f32", ("axpy", 0)),
    *mistakes("another division", r"div\.rn\.f32", "div.approx.f32", ("softmax", 0)),
    *mistakes("small numbers are zero", r"add\.rn\.f32", "add.rn.ftz.f32", ("axpy", 0)),
)

UNKNOWN = ("rounding is left open", "another division", "small numbers are zero")
"""Kinds whose instructions the emulator doesn't know, as their results aren't those of a CPU."""


def found_by(program: str, mistake: Mistake | None = None):
    _, arguments = PROGRAMS[program]
    code = replace(compiled(program), kept={}, layouts={})
    if mistake is not None:
        changed = replace(code.code, loaded={})
        vars(changed)["ptx"] = changed_text(code.code.ptx, mistake)
        code = replace(code, code=changed)
    try:
        with using(EmulatedDevice(3)):
            return [np.asarray(x).tobytes() for x in code.run([np.asarray(a) for a in arguments])]
    except IndexError as error:
        return str(error)


@cache
def compiled(program: str):
    f, arguments = PROGRAMS[program]
    return dlvm.function(f, target="cuda").compile(*arguments).road.executable.code


def changed_text(text: str, mistake: Mistake) -> str:
    place = [*re.finditer(mistake.pattern, text)][mistake.nth]
    found = text[: place.start()] + place.expand(mistake.replacement) + text[place.end() :]
    assert found != text
    return found


right = cache(found_by)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_noticed(mistake: Mistake):
    expected = right(mistake.program)
    try:
        found = found_by(mistake.program, mistake)
    except EmulatorError:
        return
    except CompilerError:
        assert mistake.kind in UNKNOWN
        return
    assert found != expected


def test_there_are_forty_mistakes_of_twenty_kinds():
    assert len(MISTAKES) >= 40
    assert len({m.kind for m in MISTAKES}) >= 20


@pytest.mark.parametrize(
    "text", ["ld.volatile.global.b32 \t%r1, [0];", "ex2.approx.f32 \t%r1, %r1;", "red.add.b32 %r1;"]
)
def test_an_instruction_that_is_not_known_is_named(text):
    wild = Mistake("", "axpy", r"\tret;\n", f"\t{text}\n\tret;\n".replace("\\", ""))
    with pytest.raises(CompilerError, match=text.split()[0]):
        found_by("axpy", wild)
