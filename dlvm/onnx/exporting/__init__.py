"""Functions as ONNX files: ``dlvm.export(f, ..., format="onnx")``."""

from __future__ import annotations
