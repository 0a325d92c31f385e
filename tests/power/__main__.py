"""Does the suite find faults: old bugs made again, planted faults, and laws with a mistake?

    python -m tests.power [NAME ...] [--seeds 0 1 2] [--out FILE.json]

For each fault and each seed, the tests that are expected to find the fault run in a copy of the
sources. A line tells which test failed first and after how many seconds of processor time. At the
end of each seed, the tests that failed run once more without a fault, and must pass. The exit code
is the number of faults that a seed missed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from .faults import Fault, faults
from .running import Result, attempt, control, copy_of_sources
from .table import table


def main() -> int:
    """A line for each fault and seed; how many were missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="faults; all without them")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--random", type=int, metavar="SEED", help="one fault, drawn at random")
    parser.add_argument("--list", action="store_true", help="names of the faults, and no more")
    parser.add_argument("--out", type=Path, help="where to write what was found, as JSON")
    options = parser.parse_args()
    every = {fault.name: fault for fault in faults()}
    names = options.names or list(every)
    if unknown := [name for name in names if name not in every]:
        parser.error(f"no fault is named {unknown[0]!r}; --list shows the names")
    if options.random is not None:
        names = [random.Random(options.random).choice(names)]
    if options.list:
        print("\n".join(names))
        return 0
    return looked_for([every[name] for name in names], options.seeds, options.out)


def looked_for(wanted: Sequence[Fault], seeds: Sequence[int], out: Path | None) -> int:
    """Look for faults under each seed, then run what failed without any; how much was wrong."""
    results: list[Result] = []
    broken: list[Result] = []
    with copy_of_sources() as root:
        for seed in seeds:
            for fault in wanted:
                results.append(attempt(fault, seed, root))
                print(line(results[-1]), flush=True)
                if out:
                    out.write_text(json.dumps([*map(asdict, results)], indent=1), "utf8")
            if (without := control(results, seed, root)).by:
                broken.append(without)
                print(f"FAILED {without.by} fails without a fault, seed {seed}", flush=True)
    missed = [r for r in results if not r.by]
    print(table(results))
    print(f"{len(results) - len(missed)} found, {len(missed)} missed")
    return min(len(missed) + len(broken), 100)


def line(r: Result) -> str:
    """What became of a fault under one seed."""
    return f"{'found' if r.by else 'MISSED'} {r.seconds:5.1f} s seed {r.seed}  {r.name}: {r.by}"


if __name__ == "__main__":
    sys.exit(main())
