"""MPICH, Intel MPI and Open MPI beside one another, each in an environment of its own: make mpi.

Wheels of these libraries overwrite one another's files. In each environment a training step runs
on two ranks and, with pieces, on one and on three, the steps of a transformer on two, a second time
as well, in which nothing is compiled, and sums over four ranks, whose bits must be those of the
others. ``python -m tests.mpi.libraries mpich intel open``
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "out" / "mpi"
PACKAGES = {
    "mpich": ["mpich>=5,<6"],
    "intel": ["impi-rt>=2021.18"],
    "open": ["openmpi>=5,<6", "mpi4py"],
}
TOLD = {"open": ["--oversubscribe"]}
"""Options of a launcher: of Open MPI, more ranks than cores."""
RUNS: Sequence[tuple[int, str, Sequence[str]]] = (
    (2, "step", ()),
    (1, "step", ("4",)),
    (3, "step", ("4",)),
    (2, "transformer", ()),
    (2, "transformer", ()),
    (4, "sums", ()),
    (2, "warm", ()),
)
"""Ranks, a script, and what it is told."""


def installed(name: str) -> Path:
    """The environment of a library, made where it is not there yet."""
    place = FOLDER / name
    if not (place / "ready").exists():
        core = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]["dependencies"]
        subprocess.run([sys.executable, "-m", "venv", place], check=True)
        pip = [place / "bin" / "python", "-m", "pip", "install", "-q"]
        subprocess.run([*pip, *core, *PACKAGES[name]], check=True)
        (place / "ready").touch()
    return place


def said(name: str, ranks: int, script: str, arguments: Sequence[str], cache: str) -> str:
    """What a script prints on so many ranks; an error where it fails."""
    bin_ = FOLDER / name / "bin"
    more = {"DLVM_CACHE_DIR": cache, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    more |= {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PYTHONPATH": str(ROOT)}
    env = {k: v for k, v in os.environ.items() if k != "VIRTUAL_ENV"} | more
    command = [bin_ / "mpiexec", *TOLD.get(name, ()), "-n", str(ranks)]
    command += [bin_ / "python", f"tests/mpi/{script}.py", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=300)
    if done.returncode:
        sys.exit(f"{name}: {script} on {ranks} ranks\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def main(names: Sequence[str]) -> None:
    """Runs all with each library, and compares what they say."""
    found: dict[str, list[str]] = {}
    for name in names:
        installed(name)
        with tempfile.TemporaryDirectory() as cache:
            found[name] = [said(name, *run, cache) for run in RUNS]
        print(f"{name}: {len(RUNS)} runs", flush=True)
    for run, *each in zip(RUNS, *found.values(), strict=True):
        if len({*each}) > 1:
            sys.exit(f"{run[1]} on {run[0]} ranks: " + "; ".join(map(repr, each)))
    print(f"the same bits with {', '.join(names)}\n{found[names[0]][5]}")


if __name__ == "__main__":
    main(sys.argv[1:] or [*PACKAGES])
