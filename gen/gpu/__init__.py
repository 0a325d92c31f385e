"""Kernels as PTX for NVIDIA GPUs."""
