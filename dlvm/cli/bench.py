"""``dlvm bench``: measures the time of a call, compared with the references and a memory copy."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from dlvm.base.units import duration
from dlvm.executables import Interpreted
from dlvm.ir.interpret import bind

from .describing import subcommand
from .inputs import Call, add_inputs, call_named
from .output import print_json, print_table

LARGEST = 1 << 28


def add(commands: Any) -> None:
    """Adds the subcommand to the parser."""
    parser = subcommand(
        commands,
        "bench",
        "measure the time of a call",
        'model.py:f "f32[8,3]" --seconds 0.1',
    )
    add_inputs(parser)
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds for each measurement")
    parser.add_argument("--json", action="store_true")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints the best time of a call, and its operations and memory traffic."""
    call = call_named(options)
    arrays = [np.array(a) for a in call.arrays]
    seconds = best(lambda: call.road.executable.run(arrays), options.seconds)
    interpreted = Interpreted(call.road.differentiated)
    slow = best(lambda: interpreted.run([np.array(a) for a in call.arrays]), options.seconds)
    facts = {"seconds": seconds, "numpy_seconds": slow, **_work(call, seconds, options.seconds)}
    if options.json:
        print_json(facts)
    else:
        print_table(_rows(facts))
    return 0


def best(call: Callable[[], Any], seconds: float) -> float:
    """The least time of a call in seconds, over those that fit; the first is not timed."""
    call()
    least, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        call()
        now = time.perf_counter()
        least = min(least, now - start)
        if now > end:
            return least


def _work(call: Call, seconds: float, budget: float) -> dict[str, Any]:
    params = call.road.traced.main.params
    sizes = bind([p.type for p in params], call.arrays, [p.name for p in params])
    report = call.road.report.at(**sizes)
    moved = int(report.bytes) if isinstance(report.bytes, int) else 0
    return {
        "flops": report.flops,
        "bytes": report.bytes,
        "peak_bytes": report.peak_bytes,
        "activation_bytes": report.activation_bytes,
        "kernels": report.kernels,
        "launches": report.launches,
        "estimates": {k: t for k, t in report.estimates.items() if isinstance(t, int)},
        "compile_seconds": sum(report.seconds.values()),
        "copy_seconds": _copy(moved, budget) if 2 <= moved <= 2 * LARGEST else None,
        "target": report.target,
    }


def _copy(moved: int, budget: float) -> float:
    """The time in seconds of a memory copy that reads and writes ``moved`` bytes in total."""
    source = np.ones(moved // 2, np.uint8)
    target = np.empty_like(source)
    return best(lambda: np.copyto(target, source), budget)


def _rows(facts: dict[str, Any]) -> list[tuple[str, str]]:
    seconds, copy = facts["seconds"], facts["copy_seconds"]
    rows = [
        ("a call", duration(seconds)),
        ("interpreted", f"{duration(facts['numpy_seconds'])}  ({_ratio(facts)} times)"),
        ("operations", f"{facts['flops']}  {_rate(facts['flops'], seconds)}FLOP/s"),
        ("bytes moved", f"{facts['bytes']}  {_rate(facts['bytes'], seconds)}B/s"),
        ("peak memory", f"{facts['peak_bytes']} bytes"),
        ("per recursive call", f"{facts['activation_bytes']} bytes"),
        ("kernels", str(facts["kernels"])),
        *((f"estimate of {k}", duration(t * 1e-12)) for k, t in facts["estimates"].items()),
        ("compiled in", duration(facts["compile_seconds"])),
        ("target", facts["target"]),
    ]
    if copy is not None:
        said = f"{duration(copy)}  (a call takes {seconds / copy:.2f} times that)"
        rows.insert(4, ("memory copy", said))
    return rows


def _ratio(facts: dict[str, Any]) -> str:
    return f"{facts['numpy_seconds'] / facts['seconds']:.3g}"


def _rate(amount: Any, seconds: float) -> str:
    return f"{amount / seconds / 1e9:.3g} G" if isinstance(amount, int) else "? G"
