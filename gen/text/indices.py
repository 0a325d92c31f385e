"""Indices as numbers and numbers as indices, where a module has indices of fewer bits than i64."""

from __future__ import annotations

from .module import FunctionWriter


def as_number(w: FunctionWriter, index: str) -> str:
    """An index as a number of i64."""
    return _resized(w, "sext", index, w.text.index, "i64")


def as_index(w: FunctionWriter, number: str) -> str:
    """A number of i64 as an index."""
    return _resized(w, "trunc", number, "i64", w.text.index)


def index_of_word(w: FunctionWriter, x: str) -> str:
    """An i32 that is not negative as an index."""
    return _resized(w, "zext", x, "i32", w.text.index)


def _resized(w: FunctionWriter, word: str, x: str, type_: str, to: str) -> str:
    same = type_ == to or not x.startswith("%")
    return x if same else w.value(f"{word} {type_} {x} to {to}")
