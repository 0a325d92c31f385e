"""Transformations of functions: derivatives, batching, recomputation, and rules that
users write.
"""
