"""How the suite runs: one seed, what it cost, machine code that outlives a run, sweeps."""

from __future__ import annotations

import os
import random
import shlex
from pathlib import Path

import pytest

from dlvm.gen.llvm.disk import Store

from . import running, sweep

OBJECT, PROGRAM, TUNED = b"\x7fELF and more", b'{"call": {}}', b'{"aaaa": ["split"]}'


def store(folder: Path) -> Store:
    return Store(folder / "v1", 1 << 20)


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    for name in ("kept", "private"):
        (tmp_path / name).mkdir()
    return tmp_path / "kept", tmp_path / "private"


def test_machine_code_outlives_a_run_and_programs_do_not(folders: tuple[Path, Path]):
    kept, private = folders
    with running.machine_code_of_earlier_runs(kept, private):
        store(private).put("a" * 64, OBJECT)
        store(private).put("b" * 64, PROGRAM)
    assert [f.name for f in kept.iterdir()] == ["a" * 64]
    again = private.parent / "again"
    again.mkdir()
    with running.machine_code_of_earlier_runs(kept, again):
        assert store(again).get("a" * 64) == OBJECT
        assert store(again).get("b" * 64) is None


def test_a_schedule_that_a_test_leaves_in_the_cache_is_told(folders: tuple[Path, Path]):
    kept, private = folders
    with (
        pytest.raises(AssertionError, match="left schedules"),
        running.machine_code_of_earlier_runs(kept, private),
    ):
        store(private).put("c" * 64, TUNED)


def test_machine_code_that_no_run_asks_for_goes(folders: tuple[Path, Path]):
    kept, _ = folders
    for name, age in (("a", 0.0), ("b", 2 * running.UNUSED)):
        file = kept / (name * 64)
        file.write_bytes(b"")
        os.utime(file, (file.stat().st_mtime - age,) * 2)
    running.forget_unused(kept)
    assert [f.name for f in kept.iterdir()] == ["a" * 64]


def test_every_run_draws_from_one_seed_unless_the_environment_names_another(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv(running.SEED, "7")
    assert running.seed() == 7
    monkeypatch.delenv(running.SEED)
    assert running.seed() == 0


def test_a_run_says_what_it_took_and_stops_in_time(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("PYTHONPATH", str(sweep.ROOT))
    pytester.makepyfile("def test_a(): pass\ndef test_b(): pass\n")
    whole = pytester.runpytest_subprocess("-p", "tests.running", f"--rootdir={pytester.path}")
    whole.stdout.fnmatch_lines(["dlvm: seed *", "*s of processor time (*loop*", "*2 passed*"])
    pytester.runpytest_subprocess("-p", "tests.running", "-p", "xdist", "-n1", "--costs=costs")
    costs = [line.split("\t") for line in Path("costs").read_text("utf8").splitlines()]
    assert {test.rpartition("::")[2] for _, test in costs} == {"test_a", "test_b"}
    assert all(0 <= float(seconds) < 1 for seconds, _ in costs)
    none = pytester.runpytest_subprocess("-p", "tests.running", "--seconds=0")
    none.stdout.fnmatch_lines(["2 tests were not started in time: 2 of *"])


def test_of_a_sweep_the_seed_draws_a_part(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
):
    pytester.makepyfile(
        "import pytest\n@pytest.mark.drawn(3)\n@pytest.mark.parametrize('i', range(300))\n"
        "def test_one(i): pass\ndef test_always(): pass\n"
    )
    monkeypatch.delenv(running.WHOLE, raising=False)

    def ran(*arguments: str, **environment: str) -> set[str]:
        with monkeypatch.context() as patch:
            patch.setenv(running.SEED, environment.get("seed", "0"))
            if "whole" in environment:
                patch.setenv(running.WHOLE, "1")
            items, _ = pytester.inline_genitems("-p", "tests.running", *arguments)
            running.pytest_collection_modifyitems(items[0].config, items)
        return {item.name for item in items}

    first, second = ran(), ran(seed="1")
    assert 60 < len(first) < 140 and first != second
    assert "test_always" in first & second
    assert len(ran(whole="1")) == 301
    assert ran(f"{pytester.path}/{next(pytester.path.glob('*.py')).name}::test_one[7]") == {
        "test_one[7]"
    }


# -- sweeps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", sweep.sweeps(), ids=lambda w: w.name)
def test_a_unit_of_a_sweep_is_a_command_and_the_same_seed_gives_the_same(way: sweep.Sweep):
    first, second = (way.command(random.Random(3), 20) for _ in range(2))
    assert first == second
    module = shlex.split(first)[1].replace(".", "/")
    if module != "pytest":
        assert any((sweep.ROOT / f"{module}{end}").exists() for end in (".py", "/__main__.py"))


def test_a_unit_that_fails_is_told_with_the_command_that_repeats_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    way = sweep.Sweep("none", 1, lambda dice, seconds: "-c 'print(1); raise SystemExit(3)'")
    assert not sweep.run(way, 5, 1, tmp_path)
    assert (tmp_path / "none-5.txt").read_text() == "1\n"
    assert "SUITE_SEED=5 SUITE_WHOLE=1 python -c" in capsys.readouterr().out
