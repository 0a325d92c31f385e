"""Kernels and programs as LLVM functions for a CPU."""
