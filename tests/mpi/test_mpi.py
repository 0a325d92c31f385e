"""Ranks that are processes of MPI, where the wheel of a library and its launcher are installed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import dlvm

from . import LAUNCHER, needs_mpi

ROOT = Path(__file__).parents[2]
pytestmark = needs_mpi


def run(
    count: int, script: str, *arguments: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """A script on so many ranks of this machine."""
    env = {**os.environ, "PYTHONPATH": str(ROOT), "DLVM_THREADS": "1", **variables}
    told = [str(LAUNCHER), "-n", str(count), sys.executable, f"tests/mpi/{script}.py", *arguments]
    return subprocess.run(told, capture_output=True, text=True, env=env, cwd=ROOT, timeout=100)


def test_a_step_on_two_ranks_is_that_of_one_device_and_python_is_not_called_on_the_way() -> None:
    done = run(2, "step")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2 ranks: ")


def test_steps_of_a_transformer_on_two_ranks() -> None:
    done = run(2, "transformer")
    assert done.stdout.startswith("2 ranks: "), done.stderr


def test_one_rank_compiles_and_nobody_in_a_second_job_and_python_runs_meanwhile(
    tmp_path: Path,
) -> None:
    done = [run(2, "warm", DLVM_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert [d.stdout for d in done] == [
        "[True, False] [True, True] [5.0, 5.0, 5.0, 5.0, 5.0]\n",
        "[False, False] [True, True] [5.0, 5.0, 5.0, 5.0, 5.0]\n",
    ], done[0].stderr


def test_ranks_measure_how_they_reach_one_another_and_meshes_go_by_it(tmp_path: Path) -> None:
    done = run(2, "links", DLVM_CACHE_DIR=str(tmp_path))
    assert done.stdout == "0 True True\n", done.stderr


def test_with_pieces_the_bits_are_the_same_on_one_and_on_three_ranks() -> None:
    found = [run(count, "step", "4") for count in (1, 3)]
    assert [d.returncode for d in found] == [0, 0], found[-1].stderr
    assert len({d.stdout.split(": ")[1] for d in found}) == 1


def test_a_run_of_three_ranks_goes_on_on_one_with_the_bits_of_two(tmp_path: Path) -> None:
    told = [(2, "whole", "6"), (3, "parted", "4"), (1, "parted", "6")]
    done = [run(n, "kept", str(tmp_path / folder), stop) for n, folder, stop in told]
    assert [d.returncode for d in done] == [0, 0, 0], done[-1].stderr
    whole, _, resumed = (d.stdout.split() for d in done)
    assert (whole[0], resumed[0]) == ("0", "4") and whole[1] == resumed[1]


def test_a_sum_over_four_ranks_has_the_bits_of_four_threads() -> None:
    done = run(4, "sums")
    assert done.returncode == 0, done.stderr
    mesh = dlvm.mesh({"data": 4}, simulate=4)
    total = dlvm.function(lambda x: dlvm.shard(x, "data", None).sum(0), mesh=mesh)
    for line in done.stdout.splitlines():
        size, digest = line.split()
        shape = (1, int(size) // 4)
        rows = [np.random.default_rng(r).normal(size=shape).astype("f4") for r in range(4)]
        found = total(mesh.from_local(rows, "data", None))
        assert hashlib.sha256(found.tobytes()).hexdigest()[:16] == digest


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("index", "rank 1: index 99 is out of range"),
        ("other", "the ranks 0 and 1 run different programs"),
        ("python", "ValueError: only here"),
        ("exit", "rank 1 has had enough"),
    ],
)
def test_a_fault_of_one_rank_is_told_and_ends_all(fault: str, said: str) -> None:
    done = run(2, "faults", fault)
    assert done.returncode != 0 and said in done.stderr


def test_an_assertion_of_a_whole_value_fails_on_all_ranks_which_may_go_on() -> None:
    done = run(2, "faults", "assert")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"rank {r} goes on: positive" for r in (0, 1)]
