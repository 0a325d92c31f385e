"""A static library of one object: the format of ``ar`` with a table of its symbols."""

from __future__ import annotations

from collections.abc import Sequence


def archive(name: str, code: bytes, symbols: Sequence[str]) -> bytes:
    """The content of ``libNAME.a``; linkers find ``symbols`` by the table in front."""
    names = b"".join(s.encode() + b"\0" for s in symbols)
    table_size = 4 + 4 * len(symbols) + len(names)
    table_size += table_size % 2
    long = f"{name}/\n".encode()
    long += b"\n" * (len(long) % 2)
    first = 8 + 60 + table_size + 60 + len(long)
    table = len(symbols).to_bytes(4, "big") + first.to_bytes(4, "big") * len(symbols) + names
    out = b"!<arch>\n" + _member("/", table.ljust(table_size, b"\0"))
    out += _member("//", long)
    return out + _member("/0", code + b"\n" * (len(code) % 2), len(code))


def _member(name: str, content: bytes, size: int | None = None) -> bytes:
    """A file with its head: no time and no owner, so that the same code is the same library."""
    length = len(content) if size is None else size
    head = f"{name:16}{0:<12}{0:<6}{0:<6}{644:<8}{length:<10}`\n"
    return head.encode() + content
