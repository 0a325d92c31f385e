"""Small pieces of HTML, by which notebooks show programs and tables.

Python's own ``html`` imports large tables of characters, for which ``import dlvm`` has no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .brief import shortened


def escape(text: str) -> str:
    """The text with the characters that mean something in HTML replaced."""
    for character, code in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(character, code)
    return text


def preformatted(text: str) -> str:
    """Text with its line breaks and columns; of a long one the beginning."""
    return f"<pre>{escape(shortened(text))}</pre>"


def framed(page: str) -> str:
    """A whole page inside of another one."""
    style = "width: 100%; height: 40rem; border: 1px solid #8888"
    return f'<iframe srcdoc="{escape(page)}" style="{style}"></iframe>'


def table(rows: Iterable[Sequence[str]]) -> str:
    """A table of these rows."""
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    return f"<table>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
