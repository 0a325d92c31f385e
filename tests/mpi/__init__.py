"""Ranks that are processes: what needs a library of MPI and its launcher."""

import sys
from pathlib import Path

import pytest

from dlvm.gen.mpi import NAME

LAUNCHER = Path(sys.prefix) / "bin" / "mpiexec"
HAS_MPI = LAUNCHER.exists() and (Path(sys.prefix) / "lib" / NAME).exists()
"""Whether this environment has the wheel of a library, and its launcher."""
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="no MPI here: pip install mpich")
