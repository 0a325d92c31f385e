"""The languages in which kernels are printed, by the names of their targets."""

from __future__ import annotations

from .dialect import Dialect
from .opencl import OPENCL
from .wgsl import WGSL

DIALECTS: dict[str, Dialect] = {d.name: d for d in (OPENCL, WGSL)}
