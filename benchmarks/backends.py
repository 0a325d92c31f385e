"""One network on every back end: ResNet-18 imported from ONNX, with random weights, forward.

    python -m benchmarks.backends [--size 32] [--runs 100] [--only opencl] [--json FILE]

Each back end runs in a process of its own for at most ``LIMIT`` seconds: machine code of the CPU,
WebAssembly in Node, each language that is printed for a device, WebGPU in a browser, and PTX in the
emulator, which gets a small image and runs once. All classify the same image. A row says whether
the class is that of the CPU, how far the scores are from the CPU's in units of the largest one, the
time of the first call with all that it compiles, and the mean time of later calls. What cannot run
here says why.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.targets import PRINTED

from .networks import resnet18

CPU, WASM, PTX, BROWSER = "cpu", "wasm32", "ptx", "chromium"
BACKENDS = (CPU, WASM, *PRINTED, BROWSER, PTX)
LIMIT = 120.0
"""Seconds that one back end may take."""
SIZE, SMALL, RUNS = 32, 32, 100
"""Pixels of a side of the image, and of that for the emulator; calls after the first."""
SECONDS = 10.0
"""After so long no further call is timed."""
NODE = """
import fs from "node:fs";
const [runs, seconds] = JSON.parse(process.argv[2]);
const said = JSON.parse(fs.readFileSync("net.json", "utf8"));
const { load } = await import(`file://${process.cwd()}/loader.js`);
const start = performance.now();
const weights = new Uint8Array(fs.readFileSync("net.weights.bin"));
const f = await load(fs.readFileSync("net.wasm"), said, weights);
const x = fs.readFileSync("x.bin");
const given = f.arguments[said.arguments[0].name];
new Uint8Array(given.buffer, given.byteOffset, given.byteLength).set(x);
f.call();
const first = performance.now() - start;
const begin = performance.now();
let done = 0;
while (done < runs && performance.now() - begin < 1000 * seconds) { f.call(); done += 1; }
const mean = (performance.now() - begin) / done;
const scores = Array.from(f.results[said.results[0].name]);
console.log(JSON.stringify({ scores, first, mean, runs: done }));
"""


PAGE = """
const { loadEither } = await import("./webgpu.js");
const of = async (name) => (await fetch(name)).arrayBuffer();
const json = (file) => JSON.parse(new TextDecoder().decode(file));
const start = performance.now();
const names = ["net.wasm", "net.json", "net.weights.bin", "net.webgpu.json", "x.bin"];
const [wasm, said, weights, gpu, x] = await Promise.all(names.map(of));
const f = await loadEither(wasm, json(said), new Uint8Array(weights), json(gpu));
const [name] = Object.keys(f.arguments);
const call = () => f.call({ [name]: new Float32Array(x) });
await call();
const first = performance.now() - start, begin = performance.now();
let done = 0;
while (done < RUNS && performance.now() - begin < 1000 * SECONDS) { await call(); done += 1; }
const mean = (performance.now() - begin) / done;
return [f.device, { scores: Array.from(Object.values(f.results)[0]), first, mean, runs: done }];
"""


# -- one back end, in its own process ------------------------------------------------------------


def network(size: int) -> tuple[Callable[[Any], Any], np.ndarray]:
    """The network as a function of an image, and the image."""
    data, shape = resnet18(1, size)
    model = dlvm.onnx.load(data)
    image = np.random.default_rng(1).normal(size=shape).astype("f4")
    return lambda x: model.function(model.weights, x)[0], image


def timed(target: str, size: int, runs: int) -> dict[str, Any]:
    """Scores and times of calls on a target of ``dlvm.function``."""
    classify, image = network(size)
    staged = dlvm.function(classify, target=target)
    start = time.perf_counter()
    scores = np.asarray(staged(image))
    first, done, begin = time.perf_counter() - start, 0, time.perf_counter()
    while done < runs and time.perf_counter() - begin < SECONDS:
        scores, done = np.asarray(staged(image)), done + 1
    mean = (time.perf_counter() - begin) / done if done else None
    times = {"first": 1e3 * first, "mean": None if mean is None else 1e3 * mean, "runs": done}
    return {"scores": scores.ravel().tolist(), **times}


def in_node(size: int, runs: int) -> dict[str, Any]:
    """Scores and times of calls in Node; the first one has the time of writing the module in it."""
    classify, image = network(size)
    node = shutil.which("node")
    if node is None:
        raise dlvm.UserError("no node is on PATH")
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.perf_counter()
        dlvm.aot(dlvm.function(classify), image, target=WASM, name="net", out=folder)
        made = time.perf_counter() - start
        (folder / "x.bin").write_bytes(image.tobytes())
        (folder / "run.mjs").write_text(NODE, "utf8")
        command = [node, "run.mjs", json.dumps([runs, SECONDS])]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-500:])
    found = json.loads(done.stdout)
    return {**found, "first": found["first"] + 1e3 * made}


def in_chromium(size: int, runs: int) -> dict[str, Any]:
    """The same in a page by WebGPU, on a device that is software."""
    from tests.gen.aot.driving import Driven

    classify, image = network(size)
    if shutil.which(BROWSER) is None:
        raise dlvm.UserError("no chromium is on PATH")
    with tempfile.TemporaryDirectory() as name:
        folder, start = Path(name), time.perf_counter()
        dlvm.aot(dlvm.function(classify), image, target="webgpu", name="net", out=folder)
        made = time.perf_counter() - start
        (folder / "x.bin").write_bytes(image.tobytes())
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = PAGE.replace("RUNS", str(runs)).replace("SECONDS", str(SECONDS))
        driven = Driven(folder)
        try:
            address = f"http://127.0.0.1:{server.server_port}/net.json"
            device, found = driven.after(address, page)
        finally:
            driven.close()
            server.shutdown()
    if device != "webgpu":
        raise RuntimeError(f"the page ran by {device}")
    return {**found, "first": found["first"] + 1e3 * made}


class Quiet(SimpleHTTPRequestHandler):
    """Files of a folder, without a line for each."""

    def log_message(self, *_: Any) -> None:
        """Says nothing."""


def child(backend: str, size: int, runs: int) -> dict[str, Any]:
    """What a back end gives."""
    if backend == WASM:
        return in_node(size, runs)
    if backend == BROWSER:
        return in_chromium(size, runs)
    target = {CPU: "host", PTX: "cuda"}.get(backend, backend)
    with using(EmulatedDevice()) if backend == PTX else nullcontext():
        return timed(target, size, 0 if backend == PTX else runs)


# -- all back ends -------------------------------------------------------------------------------


def run(backend: str, size: int, runs: int) -> dict[str, Any]:
    """What a back end gives, or why it gives nothing."""
    given = [backend, str(size), str(runs)]
    command = [sys.executable, "-m", "benchmarks.backends", "--child", *given]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"no result in {LIMIT:.0f} s"}
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1]}
    return json.loads(done.stdout.splitlines()[-1])


def row(backend: str, size: int, found: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """What is told of a back end beside the CPU at the same size."""
    if "error" in found or "error" in expected:
        return {"backend": backend, "size": size, "error": found.get("error", "no scores of a CPU")}
    a, b = np.array(found["scores"]), np.array(expected["scores"])
    apart = float(np.abs(a - b).max() / np.abs(b).max())
    same = int(a.argmax()) == int(b.argmax())
    times = {"first ms": found["first"], "mean ms": found["mean"], "runs": found["runs"]}
    told = {"backend": backend, "size": size, "class": int(a.argmax()), "same": same}
    return {**told, "apart": apart, **times}


def line(told: dict[str, Any]) -> str:
    """A row as text."""
    head = f"{told['backend']:8} {told['size']:5}"
    if "error" in told:
        return f"{head} not run: {told['error']}"
    mean = "" if told["mean ms"] is None else f"{told['mean ms']:.2f}"
    same = "same" if told["same"] else "other"
    numbers = f"{told['apart']:9.1e} {told['first ms']:10.0f} {mean:>9}"
    return f"{head} {told['class']:6} {same:>6} {numbers} {told['runs']:5}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.backends", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--size", type=int, default=SIZE)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--only", choices=BACKENDS)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        backend, size, runs = options.child
        print(json.dumps(child(backend, int(size), int(runs))))
        return 0
    print(f"{'':8}  size  class            apart   first ms   mean ms  runs")
    rows: list[dict[str, Any]] = []
    cpu: dict[int, dict[str, Any]] = {}
    for backend in BACKENDS:
        if options.only not in (None, backend):
            continue
        size = min(SMALL, options.size) if backend == PTX else options.size
        if size not in cpu:
            cpu[size] = run(CPU, size, options.runs)
        found = cpu[size] if backend == CPU else run(backend, size, options.runs)
        rows.append(row(backend, size, found, cpu[size]))
        print(line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", "utf8")
    return 0 if all(told.get("same", True) for told in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
