"""The languages in which kernels are printed, by the names of their targets."""

from __future__ import annotations

from dlvm.base.errors import UserError
from dlvm.targets import PRINTED

from .dialect import Dialect
from .glsl import GLSL
from .metal import METAL
from .opencl import OPENCL
from .wgsl import WGSL

DIALECTS: dict[str, Dialect] = {d.name: d for d in (OPENCL, WGSL, GLSL, METAL)}


def register(dialect: Dialect, stage: str) -> None:
    """Adds a language: ``target=`` takes its name, and ``text`` of the stage is its kernels."""
    if DIALECTS.setdefault(dialect.name, dialect) != dialect:
        raise UserError(
            f"target={dialect.name!r} prints {DIALECTS[dialect.name].language} already",
            remedy="register the language under another name",
        )
    PRINTED[dialect.name] = stage
