"""Forms and helper functions of WGSL as languages have them whose declarations are those of C.

GLSL and Metal's language lack some of what WGSL lacks, so they share its text: numbers of two
words, packed elements, conversions that saturate. Only heads, declarations, casts and literals
look otherwise. This file knows how WGSL spells them, and no other language.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HEAD = re.compile(r"fn (\w+)\((.*)\) -> (\S+) \{")
PARAMETER = re.compile(r"(\w+): ([^,]+)")
NAME = re.compile(r"\b(let|var) (\w+)(?:: (\S+))? =")
"""A name that stays, or one that changes; where it has no type, a language must infer it."""
FLOAT = re.compile(r"(?<![\w.])(0x[\da-f]p[+-]\d+|\d+)f\b")
"""A number that is exact in decimal digits as well."""
HALF = re.compile(r"\bhalf\b")
"""A name in WGSL, and a word of languages that are like C."""


def like_c(text: str, names: Mapping[str, str]) -> str:
    """A form or a function of WGSL; ``names`` are what its types and functions are called."""
    text = HEAD.sub(_head, text)
    text = NAME.sub(_named, text)
    text = FLOAT.sub(lambda m: f"{_value(m[1])!r}f", HALF.sub("middle_bit", text))
    for name, other in names.items():
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", lambda _, other=other: other, text)
    return text


def _head(found: re.Match[str]) -> str:
    parameters = PARAMETER.sub(r"\2 \1", found[2])
    return f"{found[3]} {found[1]}({parameters}) {{"


def _named(found: re.Match[str]) -> str:
    word, name, type_ = found.groups()
    return f"{'const ' if word == 'let' else ''}{type_ or 'auto'} {name} ="


def _value(digits: str) -> float:
    return float.fromhex(digits) if "x" in digits else float(digits)
