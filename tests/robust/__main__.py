"""Every script in full, one after the other, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys

from . import SCRIPTS


def main() -> int:
    """How many scripts failed."""
    failed = 0
    for name in SCRIPTS:
        print(f"-- {name}", flush=True)
        command = [sys.executable, "-m", f"tests.robust.{name}"]
        failed += subprocess.run(command, check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
