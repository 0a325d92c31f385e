"""Every instruction that touches memory is written by one method, which counts them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import dlvm
from dlvm.gen.checked.bounds import Checks
from dlvm.gen.products import objects
from dlvm.gen.text.access import Kind, MemoryAccess
from dlvm.gen.text.module import FunctionWriter
from dlvm.ir import F16, F32
from dlvm.target import Target

RNG = np.random.default_rng(0)
TOUCHES = re.compile(r"^ *(%[\w.]+ = )?(load|store|call .*@llvm\.(masked|mem)\w*\.)", re.M)
FUNCTION = re.compile(r"^define [^@]*@([\w.]+)\(.*?^}", re.M | re.S)
TEXT = re.compile(r"activation|ask|fork$|fork_error|mode_|pieces|tape_|tell|dlvm_main$")
"""Functions of the runtime that are text from the start."""


def draw(*shape: int):
    return RNG.normal(size=shape)


def repeated(x):
    def body(c):
        return dlvm.cond(c.sum() > 3.0, lambda c: dlvm.sqrt(abs(c)), lambda c: c * x + 1.0, c)

    return dlvm.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, body(c[1])), (0, x))[1].sum()


@dlvm.function
def power(n, x):
    return dlvm.cond(n <= 0, lambda: x * 0 + 1.0, lambda: x * power(n - 1, x))


PROGRAMS = {
    "elementwise": (lambda x, y: dlvm.where(x > y, dlvm.sin(x), y * y), draw(33, 7), draw(33, 7)),
    "strided": (lambda x: (x[:, ::2] + x[:, 1::2], x.T + 1), draw(64, 64)),
    "fold": (lambda x: (x.sum(0), x.max(1), dlvm.nn.softmax(x)), draw(40, 17)),
    "forked": (lambda x: dlvm.exp(x).sum(1), draw(3000, 1000)),
    "product": (lambda x, y: dlvm.tanh(x[::2].T * 2.0 @ y), draw(128, 60), draw(64, 40)),
    "scatter": (lambda x, i: dlvm.grad(lambda x: (x[i] ** 2).sum())(x), draw(30, 5), [1, 2, 9]),
    "sort": (lambda x: (dlvm.sort(x), dlvm.argsort(x)[:, ::-1]), draw(12, 700)),
    "search": (lambda x, y: dlvm.searchsorted(x, y), draw(100), draw(50)),
    "factorisation": (lambda x: dlvm.linalg.cholesky(x @ x.T + 9 * dlvm.eye(20)), draw(20, 20)),
    "solve": (lambda x, y: dlvm.linalg.solve(x, y), draw(20, 20), draw(20, 3)),
    "scan": (lambda x: dlvm.cumsum(x, 0), draw(100, 30)),
    "tape": (lambda x: dlvm.grad(repeated)(x), draw(9)),
    "recursion": (lambda x: dlvm.grad(power, wrt=1)(3, x), 2.0),
    "parallel trips": (lambda x: dlvm.vmap(repeated)(x), draw(40, 9)),
}


@pytest.fixture
def written(monkeypatch) -> dict[str, int]:
    """How many accesses were written to each function, by its name."""
    counts: dict[str, int] = {}
    right = FunctionWriter.function

    def counted(w: FunctionWriter, header: str, *rest: str, **more: str) -> str:
        found = re.search(r"@([\w.]+)", header)
        assert found is not None
        counts[found.group(1)] = w.accesses
        return right(w, header, *rest, **more)

    monkeypatch.setattr(FunctionWriter, "function", counted)
    return counts


def missed(text: str, written: dict[str, int]) -> list[str]:
    """Functions of a module in which memory is touched by what was not announced."""
    own = [m for m in FUNCTION.finditer(text) if not TEXT.match(m.group(1))]
    assert own
    return [m.group(1) for m in own if len(TOUCHES.findall(m.group(0))) != written.get(m.group(1))]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_access_of_a_program_is_written_by_the_one_method(name, threads, written):
    f, *arguments = PROGRAMS[name]
    compiled = dlvm.function(f, threads=threads).compile(*map(np.asarray, arguments))
    assert missed(compiled.text("llvm"), written) == []
    assert sum(written.values()) > 0


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_access_of_a_program_is_announced_to_what_checks_it(name):
    """Otherwise a function ends with an error; the checks are in the text."""
    f, *arguments = PROGRAMS[name]
    compiled = dlvm.function(f, debug="bounds").compile(*map(np.asarray, arguments))
    assert "call ptr @dlvm_bounds.one(" in compiled.text("llvm")


@pytest.mark.parametrize("dtype", [F32, F16])
@pytest.mark.parametrize("transposed", [False, True])
def test_every_access_of_a_product_is_written_by_the_one_method(dtype, transposed, written):
    for filled in ((False, False), (True, False)):
        for piece in objects.pieces(objects.Generic(dtype, transposed, False, 48, 64, filled)):
            assert missed(objects.code(piece, Target.host()), written) == []
            assert "@dlvm_bounds.one(" in objects.code(piece, Target.host(), Checks)


ACCESSES = {
    "load <4 x float>, ptr %p, align 4": (Kind.LOAD, "%p", "float", 4, 4),
    "store i64 %x, ptr %p": (Kind.STORE, "%p", "i64", 1, 0, "%x"),
    "store atomic i64 %x, ptr %p release, align 8": (
        *(Kind.STORE, "%p", "i64", 1, 8, "%x"),
        *("", "release"),
    ),
    "call <4 x i8> @llvm.masked.gather.v4i8.v4p0(<4 x ptr> %p, i32 1, <4 x i1> %m, "
    "<4 x i8> zeroinitializer)": (Kind.GATHER, "%p", "i8", 4, 1, "", "%m"),
    "call void @llvm.masked.store.v2f64.p0(<2 x double> %x, ptr %p, i32 8, <2 x i1> %m)": (
        *(Kind.MASKED_STORE, "%p", "double", 2, 8, "%x", "%m"),
    ),
}


@pytest.mark.parametrize("line", ACCESSES)
def test_an_access_as_an_instruction(line):
    access = MemoryAccess(*ACCESSES[line])
    assert str(access) == line
    assert access.writes == ("store" in line)
