"""Passes over the regions of control operations: dead code, invariants, common subexpressions."""
