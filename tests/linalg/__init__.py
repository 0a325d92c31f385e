"""Tests of ``dlvm.linalg``."""
