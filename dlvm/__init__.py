"""dlvm: NumPy-style Python to machine code, for a function and for its gradient."""

from dlvm import ops as ops
from dlvm.ir import Module, parse

__all__ = ["Module", "ops", "parse"]
