"""Mistakes in the text of kernels, one at a time: the emulator notices each of them.

Either it says what no GPU may do, or a result is another one than that of the right text.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.gen.gpu.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.gen.gpu.emulator.machine import EmulatorError
from dlvm.gen.gpu.emulator.threads import threads
from dlvm.ir import DTYPES

from .kinds import KINDS, f32

BF16 = DTYPES["bf16"].numpy
HALVES = f32(70, 40).astype(BF16), f32(40, 66).astype(BF16)
MORE = {
    "halves": (lambda a, b: a @ b, HALVES),
    "scatter": (
        lambda a, i, u: dlvm.scatter_add(a, i, u),
        (f32(40, 9), np.array([3, 7, 3, 39]), f32(4, 9)),
    ),
    "wrong index": (lambda a, i: a[i], (f32(5), np.arange(-9, 200))),
}
PROGRAMS = KINDS | MORE


@dataclass(frozen=True)
class Mistake:
    """The ``nth`` match of a pattern in a program's kernels is replaced."""

    kind: str
    program: str
    pattern: str
    replacement: str
    nth: int = 0

    def __str__(self) -> str:
        return f"{self.kind}-{self.program}-{self.nth}"


BARRIER = r"  call void @llvm.nvvm.barrier.cta.sync.aligned.all\(i32 0\)\n"
TID = r"(%t\d+) = zext i32 (%t\d+) to i64"
MISTAKES = (
    *(Mistake("a barrier is missing", "product", BARRIER, "", n) for n in (0, 1)),
    *(Mistake("a barrier is missing", "halves", BARRIER, "", n) for n in (0, 1)),
    *(
        Mistake(
            "a guard always holds", name, r"br i1 %t\d+, label %then", "br i1 true, label %then", n
        )
        for name, n in (("gelu", 0), ("gelu", 1), ("gather", 2), ("product", 0), ("dense", -1))
    ),
    Mistake("another lane", "axpy", TID, r"\1 = add i64 0, 1", 0),
    Mistake("another lane", "softmax", TID, r"\1 = add i64 0, 1", 2),
    Mistake("another lane", "transpose", TID, r"\1 = add i64 0, 1", 1),
    *(
        Mistake(
            "a shuffle of another distance", name, rf"i32 {n}, i32 31\)", f"i32 {n // 2}, i32 31)"
        )
        for name, n in (("softmax", 16), ("layer norm", 8), ("layer norm", 4))
    ),
    Mistake("a shuffle the other way", "softmax", r"shfl\.sync\.down", "shfl.sync.up", -1),
    Mistake(
        "a shuffle the other way",
        "layer norm",
        r"call i32 @llvm\.nvvm\.shfl\.sync\.idx",
        "call i32 @llvm.nvvm.shfl.sync.down",
        -1,
    ),
    *(
        Mistake("another offset", "product", rf"mul nsw i64 {n}, ", f"mul nsw i64 {n - 1}, ", 0)
        for n in (64, 50)
    ),
    Mistake("another offset", "halves", r"mul i64 (%t\d+), 40", r"mul i64 \1, 32", 0),
    Mistake("another offset", "column sum", r"mul nsw i64 70, ", "mul nsw i64 71, ", 0),
    Mistake(
        "registers change places",
        "halves",
        r"(i32 %t\d+), (i32 %t\d+), (i32 %t\d+), (i32 %t\d+), (i32 %t\d+), (i32 %t\d+), float",
        r"\1, \3, \2, \4, \5, \6, float",
        3,
    ),
    Mistake(
        "registers change places",
        "halves",
        r"(i32 %t\d+), (i32 %t\d+), (float %t\d+), (float %t\d+)",
        r"\2, \1, \3, \4",
        0,
    ),
    Mistake("registers change places", "halves", r"(extractvalue .*), 1\n", r"\1, 2\n", 0),
    Mistake(
        "a sum starts again",
        "product",
        r"@llvm\.fma\.f32\((.*), float %t\d+\)\n",
        r"@llvm.fma.f32(\1, float 0.0)\n",
        0,
    ),
    Mistake("a sum starts again", "halves", r"float %t\d+\)\n", "float 0.0)\n", 0),
    Mistake(
        "no block runs",
        "gelu",
        r"(%t\d+) = sdiv i64 %t\d+, %t\d+",
        r"\1 = add i64 0, 0",
        0,
    ),
    Mistake(
        "another array",
        "product",
        r"@k0\.panel\.y to ptr\), i64 (%t\d+)",
        r"@k0.panel.x to ptr), i64 \1",
        1,
    ),
    Mistake("another array", "dense", r"ptr %b2,", "ptr %b1,", 0),
)


def found_by(program: str, mistake: Mistake | None = None):
    f, arguments = PROGRAMS[program]
    compiled = dlvm.function(f, target="cuda").compile(*arguments)
    code = compiled.road.executable.code
    if mistake is not None:
        kernels, changed = dict(code.code.kernels), False
        for name, phases in kernels.items():
            texts = [changed_text(k.llvm, mistake) for k in phases]
            changed |= any(t != k.llvm for t, k in zip(texts, phases, strict=True))
            kernels[name] = tuple(replace(k, llvm=t) for t, k in zip(texts, phases, strict=True))
        assert changed, f"nothing matches {mistake.pattern}"
        code = replace(code, code=replace(code.code, kernels=kernels, loaded={}))
    leaves = [np.asarray(a) for a in arguments]
    with using(EmulatedDevice(3)):
        return [np.asarray(x) for x in code.run(leaves)]


def changed_text(text: str, mistake: Mistake) -> str:
    places = [*re.finditer(mistake.pattern, text)]
    if not places or mistake.nth >= len(places):
        return text
    place = places[mistake.nth]
    return text[: place.start()] + place.expand(mistake.replacement) + text[place.end() :]


RIGHT: dict[str, list[np.ndarray]] = {}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("mistake", MISTAKES, ids=str)
def test_a_mistake_is_noticed(mistake: Mistake):
    if mistake.program not in RIGHT:
        RIGHT[mistake.program] = found_by(mistake.program)
    try:
        found = found_by(mistake.program, mistake)
    except EmulatorError:
        return
    pairs = zip(found, RIGHT[mistake.program], strict=True)
    assert not all(a.tobytes() == b.tobytes() for a, b in pairs)


def test_there_are_twenty_mistakes_of_eight_kinds():
    assert len(MISTAKES) >= 20
    assert len({m.kind for m in MISTAKES}) >= 8


def test_an_access_that_is_not_checked_is_an_error():
    compiled = dlvm.function(PROGRAMS["axpy"][0], target="cuda").compile(*PROGRAMS["axpy"][1])
    ((kernel,),) = compiled.road.executable.code.code.kernels.values()
    wild = "  %wild = load volatile float, ptr inttoptr (i64 8 to ptr), align 4\n  ret void\n"
    with pytest.raises(CompilerError, match="does not check this access"):
        threads(kernel.llvm.replace("  ret void\n", wild))
