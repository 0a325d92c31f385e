"""Where lines of text come from: groups of places in the user's source, each stored once.

A place is a line of a file and the ordinal of one operation that was traced there, so two
operations of one line are told apart. Every line of every stage names a group by its index.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dlvm.base.errors import Origin

NONE = 0
"""The group of lines that come from nowhere in the source."""


@dataclass(frozen=True)
class Groups:
    """Collects the groups, the places and the files that lines of a page come from.

    Lines of the ``hidden`` files are not the user's and count as coming from nowhere.
    """

    hidden: Collection[str] = ()
    files: dict[str, int] = field(default_factory=dict[str, int])
    places: dict[tuple[int, int, int], int] = field(default_factory=dict[tuple[int, int, int], int])
    known: dict[tuple[tuple[int, ...], str], int] = field(default_factory=lambda: {((), ""): NONE})

    def of(self, origins: Iterable[Origin | None]) -> int:
        """The index of the group of these origins."""
        given = [o for o in origins if o is not None and o.file not in self.hidden]
        told = given[0].derived if len(given) == 1 else ""
        key = tuple(sorted({self._place(o) for o in given})), told
        return self.known.setdefault(key, len(self.known))

    def _place(self, origin: Origin) -> int:
        file = self.files.setdefault(origin.file, len(self.files))
        return self.places.setdefault((file, origin.line, origin.ordinal), len(self.places))

    def to_dict(self) -> Mapping[str, Any]:
        """Plain data: groups as lists of places, places as file, line and ordinal, and files."""
        return {
            "sources": [_source(file) for file in self.files],
            "places": list(self.places),
            "groups": [[list(places), told] for places, told in self.known],
        }


def _source(file: str) -> dict[str, Any]:
    """A file of the user's with its lines; none where it cannot be read."""
    lines = [line.rstrip("\n") for line in linecache.getlines(file)]
    return {"file": file, "name": os.path.basename(file), "lines": lines}
