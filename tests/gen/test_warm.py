"""A program from the disk is the program that was made: no pass runs, and nothing differs."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm import passes
from dlvm.base.errors import CompilerError, IndexOutOfRange
from dlvm.compile import Options, Road
from dlvm.gen import warm
from dlvm.gen.llvm import cache
from dlvm.gen.llvm.binding import Library
from dlvm.gen.origins import Known
from dlvm.ir import parse, rewrite
from dlvm.ir.rewrite import RULES
from dlvm.ops import Neg
from dlvm.target import Target
from tests.test_house import ROOT

from .call.test_interface import CONSTANTS
from .control_cases import CASES

HOST = Target.host()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_compiler(monkeypatch):
    """From now on nothing can be compiled."""

    def forbid():
        def refuse(*_, **__):
            raise AssertionError("a pass runs")

        for owner, name in ((passes, "run"), (warm, "build"), (dlvm.compile, "expand")):
            monkeypatch.setattr(owner, name, refuse)

    return forbid


def road(text: str) -> Road:
    return Road(parse(text), Options())


def copies(arrays):
    return [np.array(a) for a in arrays]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_programs_give_the_same_from_the_disk(case, no_compiler):
    cold = road(str(case.module))
    expected = [cold.executable.run(copies(call)) for call in case.calls]
    figures = cold.report
    no_compiler()
    again = road(str(case.module))
    for call, results in zip(case.calls, expected, strict=True):
        for a, b in zip(again.executable.run(copies(call)), results, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
    assert replace(again.report, seconds={}) == replace(figures, seconds={})
    assert list(again.report.seconds) == ["load"]


def test_constants_donation_prints_and_symbols_come_back(no_compiler):
    def answer():
        lines: list[str] = []
        x, y = np.ones((3, 3), np.float32), np.ones(2, dlvm.ir.BF16.numpy)
        found = road(CONSTANTS).executable.run((x, y, np.arange(1)), lines.append)
        assert found[0] is x
        return [(a.dtype, a.tolist()) for a in found], lines

    expected = answer()
    no_compiler()
    assert answer() == expected


def test_every_stop_can_still_be_shown():
    cold = road(CONSTANTS)
    shown = {stage: cold.text(stage) for stage in dlvm.compile.STAGES}
    again = road(CONSTANTS)
    assert "load" in again.report.seconds
    assert {stage: again.text(stage) for stage in dlvm.compile.STAGES} == shown


def pick(x, i):
    return (dlvm.tanh(x)[i] ** 2).sum()  # the line that fails


@pytest.mark.parametrize("f", [pick, dlvm.grad(pick)], ids=["value", "gradient"])
def test_an_error_names_the_line_of_this_trace(f, no_compiler):
    x, good, bad = np.ones(3, np.float32), np.array([0, 2]), np.array([0, 3])

    def message():
        with pytest.raises(IndexOutOfRange, match="the line that fails") as info:
            compiled(x, bad)
        return str(info.value)

    compiled = dlvm.function(lambda x, i: f(x, i)).compile(x, good)
    expected = message()
    no_compiler()
    compiled = dlvm.function(lambda x, i: f(x, i)).compile(x, good)
    assert message() == expected


def key(text=CONSTANTS, target=HOST):
    return warm.key_of(parse(text), target)


def test_all_that_a_program_depends_on_is_in_its_key(monkeypatch):
    keys = [
        key(),
        key(CONSTANTS.replace("1.5", "1.75")),
        key(CONSTANTS.replace("donated", "")),
        key(target=replace(HOST, threads=HOST.threads + 1)),
        key(target=replace(HOST, features="")),
        key(target=replace(HOST, vector_bits=128)),
    ]
    monkeypatch.setattr(np, "__version__", "another")
    keys.append(key())
    monkeypatch.setattr("llvmlite.__version__", "another")
    keys.append(key())
    monkeypatch.setattr(warm, "_sources", lambda: b"other sources")
    keys.append(key())
    assert len(set(keys)) == len(keys)
    assert key() == key()


def test_the_place_in_the_trace_is_in_the_key():
    module = dlvm.trace(lambda x, i: x[i], dlvm.spec("f32[3]"), dlvm.spec("i64"))
    (op,) = (op for op in module.main.ops if op.may_raise)
    text, first = str(module), warm.key_of(module, HOST)
    assert op.origin is not None
    op.origin = replace(op.origin, ordinal=op.origin.ordinal + 1)
    assert str(module) == text
    assert warm.key_of(module, HOST) != first


def test_any_changed_line_of_the_sources_changes_the_key(tmp_path, monkeypatch):
    found = set()
    rooms = (".", *warm.ROOMS, f"{warm.ROOMS[0]}/inner")
    for room in rooms:
        (tmp_path / room).mkdir(exist_ok=True)
        for text in ("x = 1\n", "x = 2\n"):
            (tmp_path / room / "file.py").write_text(text)
            monkeypatch.setattr(passes, "__file__", str(tmp_path / "x.py"))
            found.add(warm._sources.__wrapped__())
    assert len(found) == 2 * len(rooms)
    monkeypatch.setattr(passes, "__file__", str(tmp_path / "missing.zip" / "x.py"))
    assert warm._sources.__wrapped__() is None


def test_with_a_law_from_outside_nothing_whole_is_kept():
    assert key() is not None

    @rewrite(Neg, example=lambda x: -x)
    def strange(op: Neg) -> None:
        """A law of nobody we know."""

    try:
        assert key() is None
        assert "load" not in road(CONSTANTS).report.seconds
    finally:
        RULES[Neg].pop()
    assert key() is not None


def test_passes_know_who_wrote_them():
    assert {p.run.__module__.split(".")[1] for p in passes.PASSES.values()} >= {"ad", "opt"}


def test_with_passes_to_verify_they_run(monkeypatch):
    for verify, warmed in (("", False), ("1", False), ("", True)):
        monkeypatch.setenv("DLVM_VERIFY", verify)
        assert ("load" in road(CONSTANTS).report.seconds) is warmed


def test_a_damaged_program_is_made_again(folder, caplog):
    def answer():
        x, y = np.ones((1, 3), np.float32), np.ones(2, dlvm.ir.BF16.numpy)
        return [a.tolist() for a in road(CONSTANTS).executable.run((x, y, np.arange(0)), str)]

    expected = answer()
    for file in (folder / "v1").iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert answer() == expected
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
    assert cache.store().damaged() == []


def test_large_constants_are_not_kept_and_come_from_the_trace(no_compiler, folder):
    w = np.random.default_rng(0).normal(size=(64, 32, 3, 3)).astype(np.float32)
    x = np.ones((1, 32, 5, 5), np.float32)

    def net(x, w):
        return dlvm.nn.conv(x, w, layout="channels_first")

    cold = Road(dlvm.function(net).bind(w=w).trace(x), Options())
    assert str(cold.kernels).count(f"f32[1,64,{9 * 32}]") and "[64,32,3,3]" not in str(cold.kernels)
    (expected,) = cold.executable.run([x])
    assert sum(f.stat().st_size for f in (folder / "v1").iterdir()) < w.nbytes
    traced = cold.traced
    again = Road(parse(str(traced)), Options())
    known = Known(traced)
    found = cache.store().get(warm.key_of(traced, HOST, told=known.told))
    interface, _, _ = warm.unpacked(found, known)
    assert any(a.shape == (1, 64, 9 * 32) for a in interface.constants)
    np.testing.assert_array_equal(again.executable.run([x])[0], expected)
    assert list(again.report.seconds) == ["load"]


def layers(x, w, v, scales):
    y = np.tanh(dlvm.nn.conv(x, w, layout="channels_first")) * scales[:, None, None]
    return y.reshape(-1) @ v


def run_bound(f, x, **weights):
    return Road(dlvm.function(f).bind(**weights).trace(x), Options()).executable.run([x])


def test_code_serves_other_weights_of_the_same_types(no_compiler, folder):
    r = np.random.default_rng(0)
    x = drawn(r, 1, 32, 5, 5)
    shapes = {"w": (64, 32, 3, 3), "v": (64 * 25, 4), "scales": (64,)}
    weights = [{name: drawn(r, *shape) for name, shape in shapes.items()} for _ in range(3)]
    expected = [dlvm.function(layers)(x, **given) for given in weights]
    run_bound(layers, x, **weights[0])
    count = len(list((folder / "v1").iterdir()))
    no_compiler()
    for given, answer in zip(weights, expected, strict=True):
        np.testing.assert_array_equal(run_bound(layers, x, **given)[0], answer)
    assert len(list((folder / "v1").iterdir())) == count
    positive = weights[0] | {"scales": np.ones(64, np.float32)}
    with pytest.raises(CompilerError, match="a pass runs"):
        run_bound(layers, x, **positive)  # laws may ask for signs of so few


def test_code_that_depends_on_elements_of_weights_serves_no_others():
    """A number that is computed of weights becomes a part of the code of a kernel."""

    def largest(x, w):
        return x * dlvm.argmax(w.reshape(-1)).astype("f32") + w[3, 3]

    x, w = np.arange(5, dtype=np.float32), np.zeros((50, 50), np.float32)
    for place in (7, 99):
        w[3, 3] = w.reshape(-1)[place] = place
        np.testing.assert_array_equal(run_bound(largest, x, w=w)[0], x * place + w[3, 3])


def test_a_weight_that_equals_a_number_of_the_code_is_told_apart():
    def shifted(x, w):
        return (x + w) * np.full(32, 2, np.float32)

    x = np.arange(32, dtype=np.float32)
    for weight in (2, 3):
        w = np.full(32, weight, np.float32)
        np.testing.assert_array_equal(run_bound(shifted, x, w=w)[0], (x + w) * 2)


def drawn(r, *shape):
    return r.normal(size=shape).astype(np.float32)


def test_weights_that_are_equal_once_need_not_be_so_later():
    """Zeros that are turned equal zeros that are not."""
    r = np.random.default_rng(0)
    x, a, b, zeros = drawn(r, 3, 48), drawn(r, 48, 48), drawn(r, 48, 48), np.zeros((48, 48), "f4")

    def both(x, first, second):
        turned = dlvm.nn.conv(x[:, :, None], first[:, :, None], layout="channels_first")
        return turned, x @ second

    for first, second in ((zeros, zeros.copy()), (zeros, b), (a, zeros), (a, b), (a, a)):
        turned, plain = run_bound(both, x, first=first, second=second)
        np.testing.assert_allclose(turned[:, :, 0], x @ first.T, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(plain, x @ second, rtol=1e-4, atol=1e-4)


def test_whole_numbers_of_other_values_are_another_program():
    texts = [f"{1 + i}, {', '.join('1' for _ in range(5000))}" for i in range(2)]
    keys = {
        warm.key_of(
            parse(
                f"dlvm 1\nfunc @f() -> i64[5001] {{\n  %0 = constant value=[{text}] : i64[5001]\n"
                "  return %0\n}\n"
            ),
            HOST,
        )
        for text in texts
    }
    assert len(keys) == 2


def test_code_in_several_files_is_linked(no_compiler):
    from dlvm.gen.llvm.binding import object_code

    one = "define i64 @one() {\n  ret i64 1\n}\n"
    two = "declare i64 @one()\ndefine i64 @two() {\n  %x = call i64 @one()\n  ret i64 %x\n}\n"
    objects = [object_code(text, HOST) for text in (two, one)]
    road(CONSTANTS).executable  # noqa: B018
    kept = cache.store().get(key())
    known = Known(parse(CONSTANTS))
    interface, report, _ = warm.unpacked(kept, known)
    nowhere = [[] for _ in interface.constants]
    again = warm.unpacked(warm.packed(interface, report({}), objects, nowhere), known)
    assert again[2] == objects
    assert Library(again[2][0], HOST, *again[2][1:]).address("two")


PROGRAM = """
import numpy as np, dlvm
@dlvm.function(donate=("params",))
def step(params, x, y):
    def loss(params, x, y):
        h = dlvm.tanh(x @ params["w1"] + params["b1"])
        return dlvm.nn.cross_entropy(h @ params["w2"] + params["b2"], y).mean()
    value, g = dlvm.value_and_grad(loss)(params, x, y)
    return dlvm.tree.map(lambda p, d: p - 0.1 * d, params, g), value
dice = np.random.default_rng(0)
shapes = {"w1": (20, 9), "b1": (9,), "w2": (9, 4), "b2": (4,)}
params = {n: dice.normal(size=s).astype(np.float32) for n, s in shapes.items()}
x, y = dice.normal(size=(8, 20)).astype(np.float32), dice.integers(0, 4, 8)
made = step.compile(params, x, y)
for _ in range(3):
    params, value = made(params, x, y)
print("load" in made.report.seconds, *(params[n].tobytes().hex() for n in sorted(params)))
"""


def test_another_process_starts_warm_and_computes_the_same_bits(folder):
    def run(seed):
        env = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, cwd=ROOT, env=env
        )
        assert done.stderr == ""
        return done.stdout.split()

    first, *bits = run("1")
    second, *others = run("2")
    assert (first, second) == ("False", "True")
    assert bits == others


FOREIGN = """
import sys
from dataclasses import dataclass, replace
from typing import ClassVar
import numpy as np, dlvm
from dlvm.gen.schedule.transform import Transform, register
@register
@dataclass(frozen=True, slots=True)
class Shorter(Transform):
    word: ClassVar[str] = "shorter"
    def rewritten(self, loop):
        return (replace(loop, extent=loop.extent - int(sys.argv[1])),)
f = dlvm.function(lambda x: x + 1)
x = np.ones(8, np.float32)
shown = f.compile(x).text("schedule")
kernel = next(line for line in shown.splitlines() if line.startswith("kernel"))
made = f.compile(x, schedule=f"schedule 1\\n{kernel}\\n  shorter %i1\\n")
found = made(x)
print("load" in made.report.seconds, *map(float, found[:6]), made.text("loops").count("< 8"))
"""


def test_a_transform_from_outside_that_was_edited_runs_as_edited_in_the_next_process(folder):
    """The key holds the words of a schedule, and what they do is known of our own alone."""

    def run(less):
        command = [sys.executable, "-c", FOREIGN, less]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        return done.stdout.split()

    first, second = run("0"), run("2")
    assert first[0] == second[0] == "False"
    assert first[1:7] == second[1:7] == ["2.0"] * 6
    assert first[-1] == "1" and second[-1] == "0"
