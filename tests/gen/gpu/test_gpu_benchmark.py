"""The benchmark for a GPU, dry: every case runs in the emulator, and is written when it is done."""

import json
import time

import pytest

from benchmarks import gpu
from benchmarks.gpu_kinds import LARGE, LOOPS
from dlvm.gen.gpu.devices import choosing
from dlvm.gen.gpu.devices.driver import Driver
from dlvm.gen.gpu.emulator.device import EmulatedDevice

from .standing_in import StandIn


def test_every_case_runs_and_is_right(tmp_path):
    path = tmp_path / "gpu.json"
    bench = gpu.main(["--dry-run", "--json", str(path)])
    found = json.loads(path.read_text("utf8"))
    assert found == bench.found
    assert list(found) == ["run", *gpu.STEPS]
    cases = [case for step in list(gpu.STEPS) for case in found[step].items()]
    assert len(cases) == 11 + 1 + 7 + 2 + len(LARGE) + len(LOOPS) + 1
    for name, result in cases:
        assert not {"error", "skipped"} & set(result), (name, result)
        assert result.get("same_bits", True), (name, result)
    for result in found["large"].values():
        assert {"ms", "share_of_copy", "same_bits"} <= set(result)
    (step,) = found["training"].values()
    assert step["last_loss"] < step["first_loss"]


def test_a_case_that_fails_is_told_and_the_next_one_runs(tmp_path):
    path = tmp_path / "gpu.json"
    bench = gpu.Bench(EmulatedDevice(), "cuda", True, time.monotonic() + 60, path)
    bench.case("s", "wrong", lambda: {"x": 1 / 0})
    assert "ZeroDivisionError" in json.loads(path.read_text("utf8"))["s"]["wrong"]["error"]
    bench.case("s", "good", lambda: {"x": 1})
    bench.end = 0
    bench.case("s", "late", lambda: pytest.fail("ran"))
    found = json.loads(path.read_text("utf8"))["s"]
    assert found["good"] == {"x": 1}
    assert found["late"] == {"skipped": "the time is over"}


def test_a_gpu_that_is_there_is_the_target(monkeypatch):
    stand_in = StandIn()
    monkeypatch.setattr(choosing, "_chosen", {})
    monkeypatch.setattr(choosing, "driver", lambda *_: Driver(stand_in))
    bench = gpu.main(["--steps", "--seconds", "5"])
    assert bench.found == {"run": {"device": {"name": "NVIDIA Stand-In", "target": "cuda:sm_90"}}}
    assert [gpu.newest(8, 7), gpu.newest(10, 3)] == ["cuda:sm_86", "cuda:sm_100"]


def test_what_is_apart_is_told():
    assert gpu.apart([gpu.drawn(3)], [gpu.drawn(3)]) == {"same_bits": True, "furthest": 0}
    told = gpu.apart([gpu.drawn(3)], [gpu.drawn(3) + 1])
    assert not told["same_bits"] and 0.9 < told["furthest"] < 1.1
