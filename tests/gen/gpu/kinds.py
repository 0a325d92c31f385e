"""Eleven kinds of program, which ``benchmarks/gpu.py`` runs as well."""

from benchmarks.gpu_kinds import KINDS, NETWORK, f32, gelu, layer_norm, loss, softmax

__all__ = ["KINDS", "NETWORK", "f32", "gelu", "layer_norm", "loss", "softmax"]
