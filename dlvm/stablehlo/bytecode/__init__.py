"""Reads portable artifacts of StableHLO, which ``jax.export`` writes, without any other package.

``exported`` finds the artifact in what ``jax.export`` serializes. An artifact is a module of the
dialect VHLO in MLIR's bytecode: ``cursor`` reads its numbers, ``sections`` its tables, ``entries``
its types and attributes, ``modules`` its operations. ``vhlo`` says what the operations of VHLO are
called in StableHLO. The format is that of ``BytecodeFormat.md`` of MLIR and ``VhloBytecode.cpp``
of StableHLO.
"""

from __future__ import annotations
