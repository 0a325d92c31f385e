"""StableHLO out and in: ``dlvm.export(f, ..., format="stablehlo")`` and ``dlvm.stablehlo.load``.

Text is written by one rule, MLIR's generic form, and needs no other package. It is read through
the bindings in jaxlib, which is imported at the first load of a text. Bytes of ``jax.export`` are
read by a reader of our own.
"""

from __future__ import annotations

from .loading import load as load

__all__ = ["load"]
