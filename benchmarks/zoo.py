"""Real models that wheels of others hold, beside onnxruntime: errors, programs, times, training.

    make zoo
    python -m benchmarks.zoo [FOLDER] [--only TEXT] [--rounds N] [--train] [--json FILE]

FOLDER (``zoo``) holds wheels or models. Each model runs in a process of its own with no code on
disk, then again with what the first one left there. Its open sizes take three values one after
the other, so that the number of programs tells whether one serves them all. Times are of one
thread's processor, in milliseconds, least of some rounds in turns. With ``--train`` ten steps of
Adam change all weights of a model whose outputs are floats, and every loss must be finite.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

LIMIT = 600
"""Seconds for one model."""
STEPS = 10
"""Steps of training."""
USUAL = ((1, 64, 96), (2, 96, 64), (1, 128, 128))
"""What the open sizes of a model are, one after the other."""
KNOWN: Mapping[str, Sequence[Any]] = {
    "ch_PP-OCRv4_rec_infer": ((1, 48, 96), (2, 48, 160), (1, 48, 320)),
    "silero_vad": ({"sr": 16000, "input": 512}, {"sr": 16000, "input": 512, "None": 3, "state": 3}),
    "common": ((64,), (96,), (160,)),
}
"""The same of models that take no other ones, or numbers by name, by the start of their name."""


def models(folder: Path) -> Iterator[tuple[str, bytes]]:
    """The models of a folder and of the wheels in it, each with its name."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".onnx":
            yield path.stem, path.read_bytes()
        elif path.suffix == ".whl":
            with zipfile.ZipFile(path) as wheel:
                for name in sorted(n for n in wheel.namelist() if n.endswith(".onnx")):
                    yield Path(name).stem, wheel.read(name)


def sizes_of(name: str) -> Sequence[Any]:
    """What the open sizes of a model are, one after the other."""
    exact = KNOWN.get(name)
    return exact or next((s for n, s in KNOWN.items() if name.startswith(f"{n}_")), USUAL)


def drawn(session: Any, sizes: Any) -> dict[str, Any]:
    """Inputs of a model whose open sizes are these, in the order in which they are met."""
    rng, given = np.random.default_rng(0), dict[str, Any]()
    known = dict[Any, int]()
    by_name = hasattr(sizes, "get")
    named: Mapping[str, int] = sizes if by_name else {}
    taken: Sequence[int] = (0,) if by_name else sizes
    for x in session.get_inputs():
        dtype = {"float": "f4", "float16": "f2", "double": "f8", "bool": "?"}.get(x.type[7:-1])
        dtype = np.dtype(dtype or x.type[7:-1])
        shape = list[int]()
        for axis, d in enumerate(x.shape):
            key = (x.name, axis) if d in (None, "?") else d
            if isinstance(d, int) and d > 0:
                shape.append(d)
                continue
            usual = named.get(x.name if axis else "None", 1) if by_name else None
            known.setdefault(key, taken[len(known) % len(taken)] if usual is None else usual)
            shape.append(known[key])
        if not x.shape and x.name in named:
            given[x.name] = np.array(named[x.name], dtype)
        else:
            draws = rng.normal(size=shape) if dtype.kind == "f" else rng.integers(0, 2, shape)
            given[x.name] = draws.astype(dtype)
    return given


def row(data: bytes, name: str, rounds: int, train: bool) -> dict[str, Any]:
    """What is told of one model; runs in a process of its own."""
    dlvm, onnxruntime = map(importlib.import_module, ("dlvm", "onnxruntime"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    start = time.process_time()
    model = dlvm.onnx.load(data)
    told: dict[str, Any] = {"load": 1e3 * (time.process_time() - start), "calls": []}
    for sizes in sizes_of(name):
        given = drawn(session, sizes)
        expected = session.run(None, given)
        start = time.process_time()
        found = [np.asarray(x) for x in model(**given)]
        first = time.process_time() - start
        mine, peer = raced(partial(model, **given), partial(session.run, None, given), rounds)
        told["calls"].append(
            {
                "sizes": str(sizes),
                "apart": max(map(_apart, found, expected), default=0.0),
                "first": 1e3 * first,
                "ms": 1e3 * mine,
                "peer ms": 1e3 * peer,
            }
        )
    told["programs"] = len(model.programs)
    if train:
        told["losses"] = losses(model, drawn(session, sizes_of(name)[0]))
    return told


def raced(mine: Callable[[], Any], peer: Callable[[], Any], rounds: int) -> tuple[float, float]:
    """The least seconds of both in turns."""
    least = [np.inf, np.inf]
    for _ in range(rounds):
        for i, run in enumerate((mine, peer)):
            start = time.process_time()
            run()
            least[i] = min(least[i], time.process_time() - start)
    return least[0], least[1]


def _apart(found: Any, expected: Any) -> float:
    """The largest difference, over the largest number."""
    if not expected.size:
        return 0.0
    apart = np.abs(found.astype(np.float64) - expected).max()
    return float(apart / (np.abs(expected).max() + 1e-30))


def losses(model: Any, given: Mapping[str, Any]) -> list[float]:
    """The losses of some steps of Adam that pull all outputs towards zero."""
    dlvm = importlib.import_module("dlvm")

    fixed = {v.name: given[v.name] for v in model.inputs if v.static}  # as the sampling rate
    inputs = {name: x for name, x in given.items() if name not in fixed}

    def loss(weights: Any, inputs: Any) -> Any:
        floats = [
            x for x in model.function(weights, **fixed, **inputs) if np.dtype(x.dtype).kind == "f"
        ]
        return sum(dlvm.mean(x * x) for x in floats)

    optimiser = dlvm.optim.adam(1e-4)

    @dlvm.function
    def step(weights: Any, state: Any, inputs: Any) -> Any:
        value, slopes = dlvm.value_and_grad(loss)(weights, inputs)
        updates, state = optimiser.update(slopes, state, weights)
        return value, dlvm.optim.apply(weights, updates), state

    weights = dict(model.weights)
    state, found = optimiser.init(weights), list[float]()
    for _ in range(STEPS):
        value, weights, state = step(weights, state, inputs)
        found.append(float(value))
    return found


def apart(name: str, path: Path, cache: Path, options: Any) -> dict[str, Any]:
    """The row of a model from a process of its own; with ``error`` if that fails."""
    code = (
        "import json, sys; from benchmarks.zoo import row; from pathlib import Path; "
        f"print(json.dumps(row(Path({str(path)!r}).read_bytes(), {name!r}, {options.rounds}, "
        f"{options.train})))"
    )
    env = {**os.environ, "DLVM_CACHE_DIR": str(cache), "DLVM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", "-c", code]
    try:
        made = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {LIMIT} s"}
    if made.returncode:
        lines = [line for line in made.stderr.splitlines() if "Error" in line or "dlvm" in line]
        return {"error": (lines or made.stderr.splitlines() or ["died"])[-1][:200]}
    found: dict[str, Any] = json.loads(made.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Prints a line for each model and value of its sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.zoo", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", nargs="?", type=Path, default=Path("zoo"))
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = dict[str, Any]()
    print(
        f"{'':28} {'apart':>8} {'ms':>8} {'ratio':>6} {'first s':>8} {'again s':>8} {'programs':>8}"
    )
    for name, data in models(options.folder):
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            path.write_bytes(data)
            cold = apart(name, path, Path(folder) / "cache", options)
            warm = apart(name, path, Path(folder) / "cache", options) if "calls" in cold else cold
        found[name] = {"cold": cold, "warm": warm}
        _tell(name, cold, warm)
    if not found:
        sys.exit(f"there are no models in {options.folder}: make zoo, or name a folder with some")
    ratios = [c["ms"] / c["peer ms"] for r in found.values() for c in r["cold"].get("calls", ())]
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {np.exp(np.mean(np.log(ratios))):.2f}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


def _tell(name: str, cold: Mapping[str, Any], warm: Mapping[str, Any]) -> None:
    if "error" in cold:
        print(f"{name[:28]:28} {cold['error']}", flush=True)
        return
    for i, call in enumerate(cold["calls"]):
        again = warm["calls"][i]["first"] / 1e3 if "calls" in warm else float("nan")
        ratio, first = call["ms"] / call["peer ms"], call["first"] / 1e3
        told = f"{call['apart']:8.1e} {call['ms']:8.2f} {ratio:6.2f} {first:8.2f} {again:8.2f}"
        more = f"{cold['programs']:8}" if i == 0 else ""
        print(f"{name[:28] if i == 0 else '':28} {told} {more} {call['sizes']}", flush=True)
    if "losses" in cold:
        print(f"{'':28} losses {', '.join(f'{x:.4g}' for x in cold['losses'])}", flush=True)


if __name__ == "__main__":
    main()
