"""Captured state: the arrays, scalars and objects that a function reads beside its arguments."""
