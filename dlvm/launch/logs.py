"""Files with what each rank writes: one folder for each start, of which rank 0 is shown as well."""

from __future__ import annotations

import codecs
import itertools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

LINES = 20
"""Number of lines of a log that are shown where its rank failed."""
ENDINGS = ("out", "err")


class Logs:
    """The logs of one start, in a folder of its own: ``start-2/rank-0.out``, ``rank-0.err``."""

    def __init__(self, folder: Path) -> None:
        starts = (folder / f"start-{n}" for n in itertools.count(1))
        self.folder = next(s for s in starts if not s.exists())
        self.folder.mkdir(parents=True)
        shown = zip(ENDINGS, (sys.stdout, sys.stderr), strict=True)
        self._followed = [_Followed(self._path(0, e), to) for e, to in shown]

    def _path(self, rank: int, ending: str) -> Path:
        return self.folder / f"rank-{rank}.{ending}"

    def options(self) -> Sequence[str]:
        """What tells the launcher to write them."""
        folder = str(self.folder.absolute()).replace("%", "%%")
        return [f"-{e}file-pattern={folder}/rank-%r.{e}" for e in ENDINGS]

    def show(self) -> None:
        """Shows what rank 0 has written since the last call."""
        for followed in self._followed:
            followed.show()

    def tail(self, rank: int) -> str:
        """The path and the last lines of what a rank wrote, of its errors where there are any."""
        for ending in reversed(ENDINGS):
            path = self._path(rank, ending)
            lines = path.read_text("utf8", "replace").splitlines() if path.exists() else []
            if lines:
                return "\n".join([f"{path} ends with", *(f"  {line}" for line in lines[-LINES:])])
        return f"rank {rank} wrote nothing to {self.folder}"

    def keep(self, traces: Mapping[int, str]) -> None:
        """Writes the lines at which ranks stood still, into a file for each."""
        for rank, trace in traces.items():
            self._path(rank, "trace").write_text(trace)


class _Followed:
    """A growing file that is copied to a stream; a character may be cut between two reads."""

    def __init__(self, path: Path, stream: TextIO) -> None:
        self.path, self.stream = path, stream
        self.file: BinaryIO | None = None
        self.decoder = codecs.getincrementaldecoder("utf8")("replace")

    def show(self) -> None:
        if self.file is None:
            if not self.path.exists():
                return
            self.file = self.path.open("rb")
        if new := self.file.read():
            self.stream.write(self.decoder.decode(new))
            self.stream.flush()
