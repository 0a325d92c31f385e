"""``dlvm launch --ray`` on a cluster of this machine, which takes half a minute.

python -m tests.mpi.ray_run

A rank is stopped, told with its line, and all start again; a rank of the second start is killed as
well, and no restart is left.
"""

from __future__ import annotations

import signal
import sys

from .test_launch import launch


def main() -> int:
    """Prints what was not as it should be."""
    told = ["--ray", "--ranks", "2", "--restarts", "1", "--stuck", "0.5"]
    done = launch(*told, "tests/mpi/launched.py", "stop")
    wanted = ("rank 1 stands still at launched.py", "restart 1 of 1: 2 ranks of launched.py")
    missing = [text for text in wanted if text not in done.stderr]
    if missing or done.returncode != 128 + signal.SIGKILL or done.stdout.count("of 2 does") != 4:
        print(f"expected {missing}, found code {done.returncode}\n{done.stdout}{done.stderr}")
        return 1
    print("a stopped rank was told and ended, and all started again, under Ray")
    return 0


if __name__ == "__main__":
    sys.exit(main())
