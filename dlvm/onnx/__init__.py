"""ONNX: models of other frameworks as compiled functions that can be trained.

``load`` reads a model, ``operation`` adds an operation to the table of those that it may use.
"""

from __future__ import annotations

from dlvm.dsl.trace.suggestions import reader

from .model import Model, load
from .table import Call, Unsupported, operation
from .values import Results, Value
from .wire import Malformed

__all__ = [
    "Call",
    "Malformed",
    "Model",
    "Results",
    "Unsupported",
    "Value",
    "load",
    "operation",
]
__getattr__ = reader("dlvm.onnx", __all__)
