"""The packed file for a GPU, dry: cases play on the stand-in, and one that hangs ends alone."""

import ast
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.gpu_kinds import LARGE, LOOPS
from benchmarks.silicon.__main__ import pack
from benchmarks.silicon.packing import PLAYED
from benchmarks.silicon.played import drawn as drawing
from benchmarks.silicon.played.batches import Run
from benchmarks.silicon.played.recording import digested, sampled
from benchmarks.silicon.played.theirs import THEIRS
from benchmarks.silicon.programs import MOVING, large, small
from dlvm.ir import BF16

CASES = ["axpy", "loop", "cumsum of 2^18"]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def packed(tmp_path_factory):
    path = tmp_path_factory.mktemp("silicon") / "silicon.pyz"
    pack(path, "cuda:sm_90", True, CASES)
    return path


def edited(source, path, change):
    """The same file with other cases or code: ``change`` takes a name and bytes."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return path


def play(packed, child="benchmarks.silicon.stand_in"):
    """What a run of the file finds."""
    told = packed.with_suffix(".json")
    command = [sys.executable, str(packed), "--json", str(told)]
    if child:
        command += ["--child", f"{sys.executable} -m {child} {packed}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == (0 if child else 1), done.stderr
    return json.loads(told.read_text("utf8"))


def test_what_is_packed_plays_with_the_bits_of_a_cpu(packed):
    found = play(packed)
    assert list(found) == ["run", "first", "ptx", "large", "launches"]
    assert found["run"]["end"]["right"] == len(("first", *CASES, "launches"))
    assert found["run"]["end"]["not_right"] == []
    assert found["run"]["device"]["name"] == "NVIDIA Stand-In"
    assert found["ptx"]["loop"]["same_bits"] and found["large"]["cumsum of 2^18"]["same_bits"]
    timed = found["launches"]["axpy"]
    assert {"ms", "GB/s", "share_of_copy", "graph_ms", "host_us_per_launch"} <= timed.keys()


def test_a_case_that_hangs_is_killed_and_those_after_it_run(packed, tmp_path):
    def hang(name, data):
        if name != "cases/axpy/ptx":
            return data
        return data.replace(b"ret;", b"bra.uni $L__again;\n$L__again:\n\tbra.uni $L__again;")

    path = edited(packed, tmp_path / "hangs.pyz", hang)
    command = [sys.executable, "-m", "benchmarks.silicon.stand_in", str(path)]
    run = Run(path, command, tmp_path / "found.json", 60)
    run.batch("ptx", "ptx", ["axpy", "loop"], 2)
    found = json.loads(run.path.read_text("utf8"))["ptx"]
    assert found["axpy"]["error"] == "no answer in 2 s, so it was killed"
    assert found["loop"]["right"]


def test_wrong_bits_and_another_condition_are_told(packed, tmp_path):
    def wrong(name, data):
        if name == "cases/axpy/r0":
            values = np.frombuffer(data, "f4").copy()
            values[7] += 1
            return values.tobytes()
        if name == "cases.json":
            table = json.loads(data)
            table["axpy"]["results"][0]["digest"] = "of something else"
            near = {"digest": "", "tolerance": 1e-6}
            table["cumsum of 2^18"]["results"][0] |= near
            return json.dumps(table)
        return b"\1" + data[1:] if name.startswith("cases/loop/k") else data

    path = edited(packed, tmp_path / "wrong.pyz", wrong)
    command = [sys.executable, "-m", "benchmarks.silicon.stand_in", path, "ptx", *CASES]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60).stdout
    _, axpy, _, loop, _, near = map(json.loads, said.splitlines())
    assert near["right"] and "same_bits" not in near
    (apart,) = axpy["apart"]
    assert not axpy["right"] and not axpy["same_bits"]
    assert (apart["first"], apart["other"]) == (7, "1 of 1000")
    assert "the host read something else" in loop["error"]


def test_without_a_driver_the_run_says_so(packed):
    found = play(packed, child=None)
    assert list(found) == ["run"]
    assert "no driver of NVIDIA's" in found["run"]["device"]["error"]


def test_what_is_packed_needs_nothing_but_numpy():
    allowed = {*sys.stdlib_module_names, "numpy", "torch"}
    for file in PLAYED.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf8"))):
            if isinstance(node, ast.Import):
                assert {a.name.partition(".")[0] for a in node.names} <= allowed, file
            if isinstance(node, ast.ImportFrom) and not node.level:
                assert str(node.module).partition(".")[0] in allowed, file


def test_recipes_give_the_bits_that_they_always_gave():
    x = drawing.drawn(["real", [2, 2], "f4", 3])
    assert x.view("u4").tolist() == [[3209287430, 1043920072], [3210402626, 3203995816]]
    assert drawing.drawn(["index", [4], 10, 1]).tolist() == [4, 1, 5, 9]
    values = drawing.drawn(["real", [1000], "f4", 0])
    bits = drawing.rounded(values, "bf16")
    assert np.array_equal(bits, values.astype(BF16.numpy).view("u2"))
    assert np.array_equal(drawing.widened(bits, "bf16"), bits.view(BF16.numpy).astype("f4"))


def test_one_nan_is_as_good_as_another():
    x = np.array([1, np.nan], "f4")
    y = x.copy()
    y.view("u4")[1] = 0x7FFFFFFF
    assert digested(x, "<f4") == digested(y, "<f4") != digested(np.array([1, 2], "f4"), "<f4")
    assert sampled(5, 5).tolist() == [0, 1, 2, 3, 4]


def test_there_are_programs_of_every_kind():
    assert len(small()) == 38 and len(large(dry=True)) == 33
    assert not small().keys() & large(dry=True).keys()
    assert THEIRS.keys() == MOVING.keys() | LARGE.keys() | LOOPS.keys()
