"""What every script is: named checks, in full or in short, one line for each, an exit code."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

Check = Callable[[bool], str]
"""Given whether to be short: does something, raises where it goes wrong, says what was found."""


def run(doc: str | None, *checks: Check) -> int:
    """The command line of a script; how many checks failed."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--short", action="store_true", help="the form that the suite runs")
    parser.add_argument("--only", help="the name of one check")
    options = parser.parse_args()
    failed = 0
    for check in checks:
        if options.only in (None, check.__name__):
            failed += not _passes(check, options.short)
    return failed


def _passes(check: Check, short: bool) -> bool:
    start = time.perf_counter()
    try:
        said = check(short)
    except Exception as error:
        print(f"{check.__name__}: FAILED {type(error).__name__}: {error}", flush=True)
        return False
    seconds = time.perf_counter() - start
    print(f"{check.__name__}: {said} ({seconds:.1f} s)", flush=True)
    return True


def demand(condition: object, what: str) -> None:
    """Raise where something does not hold."""
    if not condition:
        raise AssertionError(what)
