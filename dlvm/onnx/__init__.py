"""ONNX: models of other frameworks as compiled functions that can be trained.

``load`` reads a model, ``operation`` adds an operation to the table of those that it may use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
if not TYPE_CHECKING:
    __getattr__, __dir__ = reader("dlvm.onnx", __all__)
