"""Differentiation and batching: ``expand`` replaces every declared function by its code."""

from .expand import expand

__all__ = ["expand"]
