"""Writes texts of the user so that they stay texts: in C, HTML, JSON and LLVM.

Labels, messages and names of targets may hold any character. Each function here makes of them what
is inert at one place; nothing else may put such a text into a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from typing import Any


def visible(text: str) -> str:
    """The text on one line, with an escape for each character that can't be printed.

    Those are controls, ends of lines, marks that change the direction of text, and halves of
    surrogate pairs: ``a\\nb`` for a line feed between two letters.
    """
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def c_comment(text: str) -> str:
    """The text as it may stand inside of a comment of C: it can neither end nor begin one."""
    apart = re.sub(r"(?<=\*)(?=/)|(?<=/)(?=\*)", " ", visible(text))
    return apart.replace("??", "? ?").replace("??", "? ?")


def html_text(text: str) -> str:
    """The text as it may stand between tags of HTML."""
    return escape(visible(text))


def json_file(value: Mapping[str, Any]) -> str:
    """The content of a file of JSON, in ASCII."""
    return json.dumps(value, indent=1) + "\n"


def json_in_html(value: Mapping[str, Any]) -> str:
    """JSON as it may stand in a ``script`` of HTML: no text in it ends the script."""
    return json.dumps(value).replace("<", "\\u003c")


def llvm_string(text: str) -> str:
    """The constant of LLVM that is the text in UTF-8, ended by a zero: its type and its value."""
    data = text.encode("utf8", "backslashreplace").replace(b"\0", b"\\0") + b"\0"
    return f'[{len(data)} x i8] c"{"".join(map(_llvm_byte, data))}"'


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _llvm_byte(byte: int) -> str:
    plain = 32 <= byte < 127 and byte not in b'"\\'
    return chr(byte) if plain else f"\\{byte:02X}"
