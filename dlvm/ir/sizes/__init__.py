"""Sizes that may be unknown: their arithmetic, order, equations, cases, and positions in shapes."""
