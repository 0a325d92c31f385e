"""Feedback in a minute: the tests that a change concerns, and a sample of all others.

python -m tests.quick [--seconds 45] [--since COMMIT]

What has changed is what differs from a commit: from where this branch left ``main``, or, where
nothing is committed since, the files that are not committed, or the last commit. A change concerns
the tests that run a changed function, by the map that ``make map`` writes; without a map, or with
an old one, those that are near by name. Of these, changed tests run first, then those about a
changed operation, then those that run little else. Every fifth test is of a sample of all others,
which is another one each time (``SUITE_SEED`` repeats one).

Exit codes: 0 all tests that the change concerns have passed; 3 no test failed, but for some of
those the time was too short; else a test failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.running import WHOLE

from .changes import ROOT, base
from .plugin import SEED, SINCE, TOLD, Choice

LAST = 9.0
"""Seconds before the end in which no test starts: for the last one, the start and the report."""
UNRUN = 3


def main() -> int:
    """Run the tests."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=45)
    parser.add_argument("--since", help="the commit that changes are counted from")
    options = parser.parse_args()
    start = time.monotonic()
    os.environ.setdefault(SEED, str(int(time.time()) % 1_000_000))
    os.environ[WHOLE] = "1"
    since = options.since or base()
    choice = Choice(since)
    changed = choice.changes.lines
    print(f"quick: {len(changed)} files differ from {since}:", *list(changed)[:12])
    print(
        "chosen by",
        "the map" if choice.relevance else f"names alone, as {choice.why_not}",
        flush=True,
    )
    left = options.seconds - LAST - (time.monotonic() - start)
    how = ["-n2", "--maxschedchunk=2", f"--seconds={left}", "-q", "-p", "tests.quick.plugin"]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        env = {**os.environ, SINCE: since, TOLD: str(told)}
        command = [sys.executable, "-m", "pytest", *how, *choice.files]
        code = subprocess.run(command, cwd=ROOT, env=env).returncode
        counts = json.loads(told.read_text()) if told.exists() else {"near": 0, "ran": 0}
    return verdict(code, counts["near"], counts["ran"])


def verdict(code: int, near: int, ran: int) -> int:
    """Say how many of the tests that a change concerns have run; the exit code."""
    print(f"quick: the change concerns {near} tests, {ran} of them ran")
    if code == 0 and ran < near:
        print("quick: nothing failed, but this is no verdict: make test runs the others")
        return UNRUN
    return code


if __name__ == "__main__":
    sys.exit(main())
