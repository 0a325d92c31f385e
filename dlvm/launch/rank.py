"""The parent of one rank: runs its command, and notes how it ended.

The launcher tells one exit code for all ranks, and which rank it was of not at all. This file runs
beside every rank, so it imports nothing of dlvm, which takes memory and half a second.
"""

import os
import signal
import sys
import time
from pathlib import Path


def wait(number: int, frame: object) -> None:
    """Leaves it to the child what a signal means."""


def main(notes: str, command: list[str]) -> None:
    """Runs the command and ends as it did, after a note ``ended-RANK`` of the code and the time."""
    child = os.fork()
    if not child:
        os.execvp(command[0], command)
    for number in (signal.SIGINT, signal.SIGTERM):  # to the whole group, so the child has it too
        signal.signal(number, wait)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    Path(notes).mkdir(parents=True, exist_ok=True)  # another host than that of dlvm launch
    path = Path(notes, f"ended-{os.environ['PMI_RANK']}")
    unfinished = path.with_suffix(".new")
    unfinished.write_text(f"{code} {time.time()}")
    unfinished.rename(path)
    if code >= 0:
        sys.exit(code)
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
