"""Objects for every processor of the table call nothing but ``memcpy`` and ``memset``.

They are made in a process of its own for each target, as LLVM ends the process where it can't
select code.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.compile import Options, Road
from dlvm.gen.build import made
from dlvm.gen.llvm.binding import assembly, object_code
from dlvm.gen.llvm.undefined import undefined
from dlvm.targets import TARGETS, named

ALLOWED = {"memcpy", "memset", "memmove"}
DOUBLES = {
    *(f"__aeabi_{name}" for name in ("dadd", "dsub", "dmul", "ddiv")),
    *(f"__aeabi_dcmp{relation}" for relation in ("eq", "lt", "le", "gt", "ge", "un")),
    *(f"__aeabi_{name}" for name in ("f2d", "d2f", "i2d", "ui2d", "d2iz")),
    "sqrt",
}
"""Arithmetic in f64 on a processor that has none, from the library of every compiler of C."""
ROW = (5, 33)


def programs() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions with their arguments."""
    x, i = np.ones(ROW, np.float32), np.ones(ROW, np.int64)
    d, h = np.ones(ROW), np.ones(ROW, np.float16)
    key = dlvm.random.key(0)
    return {
        "sort": (lambda x: dlvm.sort(x, axis=1), (np.ones((2, 3000), np.float32),)),
        "argmax": (lambda x: dlvm.argmax(x, axis=1), (x,)),
        "cumsum": (lambda x: dlvm.cumsum(x, axis=1), (x,)),
        "gather": (lambda x, i: dlvm.take(x, i[0], axis=0), (x, i)),
        "scan": (lambda x: dlvm.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)[1], (x,)),
        "while": (lambda x: dlvm.while_loop(lambda v: v.sum() < 1e6, lambda v: v * 2, x), (x,)),
        "random": (lambda x: x + dlvm.random.normal(key, ROW), (d,)),
        "f16": (lambda x: dlvm.exp(x) @ x.T, (h,)),
        "bf16": (lambda x: x.astype(dlvm.bfloat16) @ x.T.astype(dlvm.bfloat16), (x,)),
        "f64": (lambda x: dlvm.tanh(x) @ x.T, (d,)),
        "special": (lambda x: dlvm.erf(x) + dlvm.lgamma(x) + x**x + dlvm.sin(x), (x,)),
        "special f64": (lambda x: dlvm.cos(x) + dlvm.cbrt(x) + dlvm.fmod(x, x), (d,)),
        "rounded": (lambda x: dlvm.floor(x) + dlvm.ceil(x) + dlvm.rint(x) + dlvm.trunc(x), (x,)),
        "divided": (lambda i: i // 3 + i % (i + 1), (i,)),
        "divided u64": (lambda i: i // (i + 1), (i.astype(np.uint64),)),
        "converted": (
            lambda x: x.astype("int64").astype("float32").astype("float16").astype("float64"),
            (d,),
        ),
        "from u64": (lambda x: x.astype("uint64").astype("float32"), (x,)),
        "matmul": (lambda x: x @ x.T, (np.ones((70, 33), np.float32),)),
    }


def objects(target: str) -> Iterator[tuple[str, bytes]]:
    """The machine code of each program and of the products that it calls."""
    chosen = named(target)
    for name, (function, given) in programs().items():
        road = Road(dlvm.function(function).trace(*given), Options())
        found = made(road.kernels, chosen)
        pieces = found.text.sources()
        for text in (found.llvm, *pieces):
            yield name, object_code(text, chosen, jit=False)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("target", [t for t in TARGETS if t not in ("x86-64-v3", "x86-64-v4")])
def test_objects_call_nothing_that_a_library_would_have_to_give(target):
    command = [sys.executable, "-m", "tests.gen.llvm.test_undefined", target]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    called = json.loads(done.stdout)
    assert len(called) == len(programs())
    allowed = ALLOWED if named(target).doubles else ALLOWED | DOUBLES
    assert not {name: more for name, names in called.items() if (more := set(names) - allowed)}


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_there_is_found(target):
    text = "declare i32 @there(i32)\ndefine i32 @here(i32 %x) { %y = call i32 @there(i32 %x)\n"
    found = object_code(text + "  ret i32 %y\n}\n", named(target), jit=False)
    assert undefined(found) & {"there", "here"} == {"there"}


PLAIN = "define float @f(float %x) {\n  ret float %x\n}\n"


@pytest.mark.parametrize("target", [t for t in TARGETS if "linux" in TARGETS[t].triple])
def test_objects_for_linux_ask_for_no_executable_stack(target):
    assert b".note.GNU-stack" in object_code(PLAIN, named(target), jit=False)


@pytest.mark.parametrize("target", [t for t in TARGETS if t.startswith("thumb")])
def test_arm_passes_floats_in_registers_of_floats_and_says_so(target):
    code = assembly(PLAIN, named(target))
    assert ".eabi_attribute\t28, 1" in code
    assert "vmov" not in code


if __name__ == "__main__":
    called: dict[str, set[str]] = {}
    for name, found in objects(sys.argv[1]):
        names = {n for n in undefined(found) if not n.startswith("dlvm.")}
        called[name] = called.get(name, set()) | names
    print(json.dumps({name: sorted(names) for name, names in called.items()}))
