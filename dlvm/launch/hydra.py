"""The launcher of MPICH and Intel MPI, ``mpiexec.hydra``: where it is, and what it is told."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dlvm.base import environment
from dlvm.base.errors import UserError

NAME = "mpiexec.hydra"
PARENT = Path(__file__).with_name("rank.py")


def found() -> str:
    """The launcher of the library that ranks will use: that of ``DLVM_MPI``, or of this Python."""
    told = environment.value("DLVM_MPI")
    own = Path(told).parent.parent if told else Path(sys.prefix)
    beside = own / "bin" / NAME
    path = str(beside) if beside.exists() else shutil.which(NAME)
    if path is None:
        raise UserError(
            f"expected the launcher of MPICH or Intel MPI, found no {beside} and no {NAME} in PATH",
            remedy="pip install mpich, or add the folder with that of the cluster to PATH",
        )
    return path


def of_rank(notes: Path, script: str, arguments: Sequence[str]) -> list[str]:
    """The command of each rank: its parent, which notes its end, and the script."""
    parent = [sys.executable, "-I", "-S", str(PARENT), str(notes)]
    return [*parent, sys.executable, script, *arguments]
