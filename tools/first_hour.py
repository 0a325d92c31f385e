"""The tasks of docs/first-hour.md, each done in an empty folder by what the page shows.

    python -m tools.first_hour      does all, and prints the seconds that each took

A block after a file's name is that file; a block of commands runs in a shell, and what it prints is
compared with the page, in which ``...`` stands for anything.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-hour.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
FILE = re.compile(r"`([\w.]+)`[^`]*:\n\n```(?:python|text)\n(.*?)^```$", re.S | re.M)
COMMANDS = re.compile(r"^```console\n(.*?)^```$", re.S | re.M)


@dataclass(frozen=True)
class Task:
    """A section of the page."""

    title: str
    text: str

    @property
    def files(self) -> dict[str, str]:
        """The files that one writes."""
        return dict(FILE.findall(self.text))

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands that one runs, each with what it prints."""
        lines = "".join(COMMANDS.findall(self.text))
        both = [c.partition("\n") for c in re.split(r"^\$ ", lines, flags=re.M)[1:]]
        return [(command, shown) for command, _, shown in both]

    def do(self, folder: Path) -> None:
        """Write the files, run the commands, and compare what they print."""
        for name, content in self.files.items():
            (folder / name).write_text(content, "utf8")
        for command, shown in self.commands:
            found = printed(command, folder)
            if not doctest.OutputChecker().check_output(shown, found, FLAGS):
                raise AssertionError(f"{command}\nexpected:\n{shown}\nfound:\n{found}")


def tasks() -> list[Task]:
    """Every task of the page."""
    sections = re.split(r"^## ", PAGE.read_text("utf8"), flags=re.M)[1:]
    return [Task(*s.split("\n", 1)) for s in sections]


def printed(command: str, folder: Path) -> str:
    """What a command of the page prints, with this Python and this dlvm."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, shell=True, cwd=folder, text=True, check=False,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def main() -> None:
    """Do every task and print how long each took."""
    for task in tasks():
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            task.do(Path(folder))
            print(f"{time.perf_counter() - start:5.1f} s  {task.title}", flush=True)


if __name__ == "__main__":
    main()
