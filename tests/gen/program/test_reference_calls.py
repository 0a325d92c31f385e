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


def run(program: str, **environment: str) -> None:
    whole = {**os.environ, **environment}
    subprocess.run([sys.executable, "-c", OPERATIONS + program], check=True, env=whole)


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_a_reference_is_called(program: str):
    run(program)


def test_machine_code_on_disk_has_no_address_of_a_process(tmp_path: Path):
    for _ in range(2):
        run(VALUES + LOOPS, DLVM_CACHE_DIR=str(tmp_path))
