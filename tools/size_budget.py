"""Hold every Python file of the repository to the size that can still be read: 500 lines.

python tools/size_budget.py
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

LIMIT = 500


def too_long(root: Path) -> list[tuple[int, str]]:
    """The files over the limit, longest first."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    files = [name for name in listed.stdout.splitlines() if (root / name).is_file()]
    sizes = [(len((root / name).read_text("utf8").splitlines()), name) for name in files]
    return sorted((s for s in sizes if s[0] > LIMIT), reverse=True)


def main() -> int:
    """Print what is too long; the exit status says whether anything is."""
    found = too_long(Path(__file__).parents[1])
    for lines, name in found:
        print(f"{name}: {lines} lines, at most {LIMIT} allowed; split it by meaning")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
