"""Derivatives and batching: every declared function is filled in by ``expand``."""

from .expand import expand

__all__ = ["expand"]
