"""Everything beside its peers and beside what the machine can do, in one command.

    python -m benchmarks [--quick] [--only TEXT] [--threads N] [--out benchmarks/out]

Results are compared before anything is timed; rounds are taken in turn. Prints milliseconds,
the best peer's time over ours (above 1, ours is faster) and the floor's time over ours (1 would
be the machine's limit), and writes ``races.json`` and ``races.svg``. Peers are NumPy and, where
they are installed (``make peers``), JAX, PyTorch (training steps also under ``torch.compile``
where there is a C++ compiler), IREE, ONNX Runtime and numba.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent / "out"


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--only", default="", help="cases whose name holds this text")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true", help="leave out cases that fail")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    use_threads(options.threads)
    found = run(options.quick, options.only, options.threads, options.keep_going)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "races.json").write_text(json.dumps(found, indent=1) + "\n")
    from .picture import ratios

    (options.out / "races.svg").write_text(ratios(found["races"]))
    print(f"written: {options.out / 'races.json'}, {options.out / 'races.svg'}")


def use_threads(threads: int) -> None:
    """Hold every library to so many cores and threads; most ask once, when they are imported."""
    assert "numpy" not in sys.modules
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "DLVM_THREADS"):
        os.environ[name] = str(threads)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def run(quick: bool, only: str, threads: int, keep_going: bool = False) -> dict[str, Any]:
    """Race every case, and say how it went as it goes."""
    from .cases import cases
    from .peers import present
    from .race import QUICK, Effort
    from .training import training

    versions = present()
    names = list(versions)
    print(f"{platform.processor() or platform.machine()}, {threads} threads, {versions}")
    print(
        f"{'':31} {'':20}" + "".join(f"{n + ' ms':>11}" for n in names) + "  peer/ours  floor/ours"
    )
    races: list[dict[str, Any]] = []
    for case in (*cases(quick), *training(quick)):
        if only not in case.name:
            continue
        try:
            races.append(one(case, names, QUICK if quick else Effort(), threads))
        except Exception as error:
            if not keep_going:
                raise
            print(f"{case.name:31} {case.size:20} left out: {error!r:.60}", flush=True)
        else:
            print(line(races[-1], names), flush=True)
    return {"versions": versions, "threads": threads, "python": sys.version, "races": races}


def one(case: Any, names: list[str], effort: Any, threads: int) -> dict[str, Any]:
    """Race one case."""
    from .peers import RUNNERS
    from .race import check, race

    made = {name: RUNNERS[name](case) for name in names}
    runs = {name: run for name, run in made.items() if run is not None}
    reference = next(name for name in ("numpy", "jax", "torch", "dlvm") if name in runs)
    expected = runs[reference]()
    for name, run in runs.items():
        check(f"{case.name} by {name}", run(), expected, case.tolerance)
    seconds = race(runs, effort)
    peers = [s for name, s in seconds.items() if name != "dlvm"]
    return {
        "name": case.name,
        "size": case.size,
        "ms": {name: 1000 * s for name, s in seconds.items()},
        "peer": min(peers) / seconds["dlvm"] if peers else None,
        "floor": floor(case, threads) / seconds["dlvm"],
    }


def floor(case: Any, threads: int) -> float:
    """The seconds that arithmetic or memory need at least; what fits in caches needs less."""
    from dlvm.ir import F32, F64

    from .floors import bandwidth, fma_peak

    wide = any(getattr(a, "dtype", None) == "float64" for a in case.arguments)
    return max(
        case.flops / fma_peak(F64 if wide else F32, threads),
        case.bytes / bandwidth("copy", threads) if case.bytes > CACHE else 0,
    )


CACHE = 1 << 25
"""Bytes of a program's arrays below which they may stay in a cache."""


def line(race: dict[str, Any], names: list[str]) -> str:
    """One line of the table."""
    times = "".join(f"{race['ms'][n]:11.4f}" if n in race["ms"] else f"{'':11}" for n in names)
    peer = f"{race['peer']:11.2f}" if race["peer"] else f"{'':11}"
    limit = f"{race['floor']:12.2f}" if race["floor"] else ""
    return f"{race['name']:31} {race['size']:20}{times}{peer}{limit}"


if __name__ == "__main__":
    main()
