"""Reduction of a failing program: parts are left out, replaced, or made simpler."""
