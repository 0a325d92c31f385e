"""ONNX: models of other frameworks as staged functions."""

from __future__ import annotations

from .wire import Malformed as Malformed
