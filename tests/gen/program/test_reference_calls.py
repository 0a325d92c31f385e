"""Operations without a kernel: machine code calls their reference, and computes what NumPy does.

The programs run in processes of their own, as an operation that was made stays in the registry.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

OPERATIONS = """
import threading
from typing import Any
import numpy as np
import dlvm
from dlvm.ir import Array, Value
from dlvm.ops import Cos, Elementwise, Sin

calls = []

class Wave(Elementwise):
    "sin(x), which only its reference knows."
    name = "called_wave"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        calls.append(threading.get_ident())
        return np.sin(operands[0])
    def adjoint(self, *dy: Value):
        return (dy[0] * Slope(self.x),)

class Slope(Elementwise):
    "cos(x), which only its reference knows."
    name = "called_slope"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return np.cos(operands[0])
    def adjoint(self, *dy: Value):
        return (-(dy[0] * Wave(self.x)),)

class Fussy(Elementwise):
    "x, unless an element is negative."
    name = "called_fussy"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        if (operands[0] < 0).any():
            raise ValueError("a negative element")
        return operands[0]

class Short(Elementwise):
    "One element, where all were promised."
    name = "called_short"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return operands[0][:1]

class Parts(Elementwise):
    "The fraction and the whole part, and whether there is a fraction."
    name = "called_parts"
    accepts = "f"
    x: Value
    def infer(self):
        t = super().infer()
        return t, t.with_dtype(dlvm.ir.I32), t.with_dtype(dlvm.ir.BOOL)
    def reference(self, *operands: Array) -> Any:
        fraction, whole = np.modf(operands[0])
        return fraction, whole.astype(np.int32), fraction != 0
    def adjoint(self, *dy: Value):
        return (dy[0],)

class Wide(Elementwise):
    "Elements of another type than was promised."
    name = "called_wide"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        return operands[0].astype(np.float64)

class One(Elementwise):
    "One result where two were promised."
    name = "called_one"
    accepts = "f"
    x: Value
    def infer(self):
        return super().infer(), super().infer()
    def reference(self, *operands: Array) -> Any:
        return operands[0]

rng = np.random.default_rng(3)
wave, fussy, short = dlvm.called_wave, dlvm.called_fussy, dlvm.called_short
"""

VALUES = """
f = dlvm.function(lambda x: wave(x * 2) + 1)
for dtype in (np.float32, np.float64):
    for shape in ((), (0,), (1,), (7,), (3, 5), (2, 0, 3), (40, 65)):
        x = rng.normal(size=shape).astype(dtype)
        found = f(x)
        assert found.dtype == dtype and found.shape == shape
        assert np.array_equal(found, np.sin(x * 2) + dtype(1)), (dtype, shape)
"""

SEVERAL = """
parts = dlvm.called_parts
def f(x):
    fraction, whole, some = parts(x * 3)
    return fraction + 1, whole * 2, dlvm.where(some, fraction, 7.0)
for shape in ((), (0,), (5,), (30, 41)):
    x = rng.normal(size=shape)
    fraction, whole = np.modf(x * 3)
    want = fraction + 1, whole.astype(np.int32) * 2, np.where(fraction != 0, fraction, 7.0)
    for found, expected in zip(dlvm.function(f)(x), want):
        assert found.dtype == expected.dtype and np.array_equal(found, expected), shape
assert np.array_equal(dlvm.function(lambda x: parts(x)[1])(x), np.trunc(x))  # the others unused
g = dlvm.grad(lambda x: (parts(x)[0] * x).sum())
assert np.allclose(dlvm.function(g)(x), np.modf(x)[0] + x)
"""

FOREIGN = """
import platform
if platform.machine() != "x86_64":
    raise SystemExit(0)
from tests.gen.runtime.test_floating import FLUSHING, TOWARDS_ZERO, in_mode, mode
seen = []
class Seer(Elementwise):
    "Half of x, as NumPy computes it in the mode of the caller."
    name = "called_seer"
    accepts = "f"
    x: Value
    def reference(self, *operands: Array) -> Any:
        seen.append(mode())
        return operands[0] * 0.5
f = dlvm.function(lambda x: (x * 0.5, dlvm.called_seer(x), (x * 0.25).sum()))
tiny = np.full(5, 5e-320)
f(tiny)
for foreign in (FLUSHING, TOWARDS_ZERO):
    seen.clear()
    with in_mode(foreign):
        half, asked, total = f(tiny)
        expected = tiny * 0.5
        still = mode()
    assert seen == [still], "the reference runs in the mode of the caller"
    assert np.array_equal(asked, expected)
    assert np.array_equal(half, tiny * 0.5) and total == (tiny * 0.25).sum(), "kernels do not"
"""

DONATED = """
f = dlvm.function(lambda x: wave(x) * 2, donate=("x",))
for n in (1, 6, 1000):
    x = rng.normal(size=n)
    want = np.sin(x) * 2
    assert np.array_equal(f(x), want)
y, back = dlvm.vjp(wave, x := rng.normal(size=4))
step = dlvm.function(lambda x: wave(x) + 1, donate=("x",))
kept = x.copy()
step(x)
x[:] = 0
assert np.allclose(back(np.ones(4)), np.cos(kept)), "a pullback owns what it keeps"
"""

LOOPS = """
x = rng.normal(size=6)
want = x
for _ in range(4):
    want = np.sin(want) + 0.5
step = lambda c: wave(c) + 0.5
assert np.allclose(dlvm.function(lambda x: dlvm.fori_loop(0, 4, lambda i, c: step(c), x))(x), want)
scan = dlvm.function(lambda x: dlvm.scan(lambda c, _: (step(c), c), x, length=4)[0])
assert np.allclose(scan(x), want)
count = lambda x: dlvm.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + 1, step(s[1])), (0, x))[1]
assert np.allclose(dlvm.function(count)(x), want)
either = dlvm.function(lambda p, x: dlvm.cond(p, wave, lambda x: x, x))
assert np.allclose(either(np.bool_(True), x), np.sin(x))
calls.clear()
assert np.array_equal(either(np.bool_(False), x), x) and not calls  # not computed ahead of need
rows = rng.normal(size=(300, 400))
assert np.allclose(dlvm.function(lambda r: dlvm.map(wave, r), threads=2)(rows), np.sin(rows))
"""

DERIVATIVES = """
x = rng.normal(size=5)
g = dlvm.grad(lambda x: (wave(x) * x).sum())
assert np.allclose(dlvm.function(g)(x), np.cos(x) * x + np.sin(x))
second = dlvm.grad(lambda x: g(x).sum())
assert np.allclose(dlvm.function(second)(x), 2 * np.cos(x) - np.sin(x) * x)
assert np.allclose(dlvm.function(dlvm.vmap(wave))(np.stack([x, 2 * x])), np.sin([x, 2 * x]))
looped = dlvm.grad(lambda x: dlvm.fori_loop(0, 2, lambda i, c: wave(c), x).sum())
assert np.allclose(dlvm.function(looped)(x), np.cos(np.sin(x)) * np.cos(x))
"""

FAILING = """
def told(f, x):
    try:
        f(x)
    except dlvm.DlvmError as error:
        return str(error)
    raise SystemExit("not refused")
f = dlvm.function(lambda x: fussy(x) * 2)
good = np.ones(3)
assert np.array_equal(f(good), 2 * good)
for _ in range(3):
    message = told(f, -good)
    assert "the reference of called_fussy raised ValueError('a negative element')" in message
    assert "class Fussy" in message and "bug in dlvm" not in message, message
    assert np.array_equal(f(good), 2 * good)
either = dlvm.function(lambda p, x: dlvm.where(p, fussy(dlvm.where(p, x, 1.0)), 0.0))
assert np.array_equal(either(good < 0, -good), 0 * good)
guarded = dlvm.function(lambda n, x: dlvm.fori_loop(0, n, lambda i, c: c + fussy(x), x))
assert np.array_equal(guarded(0, -good), -good)  # no trip, so nothing raises
message = told(dlvm.function(lambda x: dlvm.called_wide(x) * 2), np.ones(3, np.float32))
assert "expected the reference of called_wide to return f32[3], found float64[3]" in message
message = told(dlvm.function(lambda x: dlvm.called_one(x)[0] * 2), good)
assert "reference of called_one to return f64[3], f64[3], found float64[3]" in message, message
message = told(dlvm.function(lambda x: short(x) * 2), good)
assert "expected the reference of called_short to return f64[3], found float64[1]" in message
"""

THREADS = """
f = dlvm.function(lambda x: (wave(x @ x) + x).sum(0), threads=2)
xs = [rng.normal(size=(200, 200)) for _ in range(2)]
f(xs[0])
calls.clear()
found = [[], []]
def run(i):
    for _ in range(20):
        found[i].append(f(xs[i]))
runs = [threading.Thread(target=run, args=(i,)) for i in range(2)]
for t in runs: t.start()
for t in runs: t.join()
assert len(set(calls)) == 2, "a reference runs on the thread that called"
for x, results in zip(xs, found):
    assert len(results) == 20 and all(np.array_equal(r, results[0]) for r in results)
    assert np.allclose(results[0], (np.sin(x @ x) + x).sum(0))
"""

SYMBOLIC = """
spec = dlvm.function(lambda x: (wave(x) * 2).sum(0))
for n in range(1, 12):
    x = rng.normal(size=(n, 3))
    assert np.allclose(spec(x), (np.sin(x) * 2).sum(0))
"""

EXPLAINED = """
f = dlvm.function(lambda x: wave(x) + 1)
f(np.ones(3))
text = str(f.explain())
assert "operations whose reference is called in Python" in text and "called_wave at" in text, text
"""

DEBUGGED = """
f = dlvm.function(lambda x: wave(x * 2) + 1, debug=("bounds",))
x = rng.normal(size=(4, 5))
assert np.allclose(f(x), np.sin(x * 2) + 1)
"""

PROGRAMS = {
    name.lower(): text
    for name, text in list(globals().items())
    if name.isupper() and name != "OPERATIONS" and isinstance(text, str)
}


EACH = """
import sys, traceback
for name, program in {programs!r}.items():
    calls.clear()
    try:
        exec(program, dict(globals()))
    except SystemExit as end:
        if end.code:
            sys.exit(f"{{name}}: {{end.code}}")
    except BaseException:
        sys.exit(f"{{name}}: {{traceback.format_exc()}}")
"""


def run(program: str, **environment: str) -> None:
    whole = {**os.environ, **environment}
    command = [sys.executable, "-c", OPERATIONS + program]
    done = subprocess.run(command, env=whole, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr


def test_a_reference_is_called():
    """All programs in one process: starting one takes longer than most of them."""
    run(EACH.format(programs=PROGRAMS))


def test_a_program_that_is_wrong_is_named():
    with pytest.raises(AssertionError, match=r"wrong: Traceback(.|\n)*AssertionError"):
        run(EACH.format(programs={"right": "pass", "wrong": "assert wave(0.0) == 1"}))


def test_machine_code_on_disk_has_no_address_of_a_process(tmp_path: Path):
    for _ in range(2):
        run(VALUES + LOOPS, DLVM_CACHE_DIR=str(tmp_path))
