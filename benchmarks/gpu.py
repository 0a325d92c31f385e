"""Programs on a GPU in ten minutes: first whether they are right, then how fast they are.

python -m benchmarks.gpu [--json gpu.json] [--seconds 540] [--backend pycuda] [--dry-run]

After each case the file is written anew, so a run that is cut off leaves what it had found. Times
are the device's own, between two events, the best of several. What moves memory is compared with a
copy on the device of as many bytes, products and large programs with PyTorch's where it is
installed. ``--dry-run``
runs every case in the emulator on small arrays: its times say nothing.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.gen.gpu.device import Device
from dlvm.gen.gpu.devices.choosing import choose, current, using
from dlvm.gen.gpu.emulator.device import EmulatedDevice
from dlvm.target import PTX_VERSIONS
from dlvm.targets import named

from .gpu_kinds import KINDS, LARGE, LOOPS, Large, gelu, layer_norm, loss, softmax
from .silicon.played.theirs import THEIRS

Case = tuple[str, Callable[[], dict[str, Any]]]
IN_A_ROW = 10
"""Calls between two events: while one runs, the host prepares the next."""
OLDEST = "cuda:sm_70"


@dataclass
class Bench:
    """A run: its device, the sizes, what was found so far, and when it has to end."""

    device: Device
    target: str
    dry: bool
    end: float
    path: Path | None = None
    found: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def case(self, step: str, name: str, run: Callable[[], dict[str, Any]]) -> None:
        """One case: what it gives, or why it gives nothing."""
        if time.monotonic() > self.end:
            result: dict[str, Any] = {"skipped": "the time is over"}
        else:
            try:
                result = run()
            except Exception as error:
                result = {"error": f"{type(error).__name__}: {error}"}
        self.found.setdefault(step, {})[name] = result
        shown = ", ".join(
            f"{k} {v:.4g}" if type(v) is float else f"{k} {v}" for k, v in result.items()
        )
        print(f"{step:12} {name:28} {shown}", flush=True)
        self.write()

    def write(self) -> None:
        """Everything so far, in one piece."""
        if self.path is not None:
            fresh = self.path.with_suffix(".part")
            fresh.write_text(json.dumps(self.found, indent=1), "utf8")
            fresh.replace(self.path)

    def on(self, f: Callable[..., Any], **options: Any) -> Any:
        """The function for this GPU."""
        return dlvm.function(f, target=self.target, **options)

    def sized(self, real: int, dry: int) -> int:
        """A size, or a small one for the emulator."""
        return dry if self.dry else real

    def best(self, call: Callable[[], Any]) -> float:
        """The least milliseconds of a call in several runs; the first two only warm up."""
        times: list[float] = []
        for _ in range(self.sized(8, 2)):
            start = self.device.mark()
            for _ in range(IN_A_ROW):
                call()
            times.append(self.device.milliseconds(start, self.device.mark()) / IN_A_ROW)
        return max(min(times[2:] or times), 1e-6)


def drawn(*shape: int) -> Any:
    """Random numbers: zeros would flatter a GPU, whose clock follows its power."""
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def leaves(x: Any) -> list[Any]:
    """The arrays of a result, on the host."""
    return [np.asarray(a) for a in dlvm.tree.leaves(x)]


def apart(found: Any, expected: Any) -> dict[str, Any]:
    """Whether two results have the same bits, and how far they are apart."""
    pairs = list(zip(leaves(found), leaves(expected), strict=True))
    same = all(np.array_equal(a, b, equal_nan=True) and a.dtype == b.dtype for a, b in pairs)
    far = max((float(np.max(np.abs(np.subtract(a, b, dtype="f8")), initial=0)) for a, b in pairs))
    return {"same_bits": same, "furthest": far}


# -- steps -----------------------------------------------------------------------------------------


def right(bench: Bench) -> Iterator[Case]:
    """Every kind of program beside the machine code of the CPU."""

    def run(f: Callable[..., Any], arguments: Any) -> dict[str, Any]:
        start = time.perf_counter()
        found = bench.on(f)(*arguments)
        seconds = time.perf_counter() - start
        return {**apart(found, dlvm.function(f)(*arguments)), "first_call_s": seconds}

    for name, (f, arguments) in KINDS.items():
        yield name, functools.partial(run, f, arguments)


def launches(bench: Bench) -> Iterator[Case]:
    """What a call costs on the host, and one launch on the device."""

    def run() -> dict[str, Any]:
        f, count = bench.on(lambda x: x + 1), bench.sized(2000, 3)
        x = f(drawn(32))
        bench.device.wait()
        start, first = time.perf_counter(), bench.device.mark()
        for _ in range(count):
            x = f(x)
        last, host = bench.device.mark(), time.perf_counter() - start
        on_device = bench.device.milliseconds(first, last)
        return {"host_us": 1e6 * host / count, "device_us": 1e3 * on_device / count}

    yield "one small kernel", run


def copied(bench: Bench, count: int) -> float:
    """GB/s of a copy on the device that reads and writes so many bytes in all."""
    half = max(1, count // 2)
    first, second = bench.device.allocate(half), bench.device.allocate(half)
    try:
        return count / 1e6 / bench.best(lambda: bench.device.copy(first, second, half))
    finally:
        bench.device.free(first)
        bench.device.free(second)


def moving(bench: Bench) -> Iterator[Case]:
    """Kernels that move memory, beside a copy of as many bytes."""
    n = bench.sized(8192, 8)
    wide = drawn(n, n)
    row = drawn(n)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "axpy": (lambda x, y: 2 * x + y, (wide, wide + 1)),
        "gelu": (gelu, (wide,)),
        "softmax": (softmax, (wide,)),
        "layer norm": (layer_norm, (wide, row, row)),
        "row sum": (lambda x: x.sum(axis=1), (wide,)),
        "column sum": (lambda x: x.sum(axis=0), (wide,)),
        "transpose": (lambda x: x.T + 1, (wide,)),
    }

    def run(f: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
        g, same = bench.on(f), bench.on(lambda x: x + 0)
        there = [same(a) for a in arguments]
        result = g(*there)
        count = sum(a.nbytes for a in (*there, result))
        correct = apart(result, dlvm.function(f)(*arguments))
        speed = count / 1e6 / bench.best(lambda: g(*there))
        limit = copied(bench, count)
        return {"GB/s": speed, "copy_GB/s": limit, "share": speed / limit, **correct}

    for name, (f, arguments) in cases.items():
        yield f"{name} {n}x{n}", functools.partial(run, f, arguments)


def pytorch() -> Any:
    """PyTorch on the GPU, with products of f32 without TF32; None without it."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


def of_pytorch(call: Callable[..., Any], arrays: Sequence[Any], dtype: str = "") -> Any:
    """The least milliseconds of a call of PyTorch on copies of arrays; None without it."""
    torch = pytorch()
    if torch is None:
        return None
    names = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
    there = [torch.from_numpy(a).cuda() for a in arrays]
    there = [x.to(getattr(torch, names[dtype])) for x in there] if dtype else there
    times: list[float] = []
    for _ in range(8):
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(IN_A_ROW):
            call(torch, *there)
        last.record()
        last.synchronize()
        times.append(first.elapsed_time(last) / IN_A_ROW)
    return min(times[2:])


def products(bench: Bench) -> Iterator[Case]:
    """Products of matrices in f32, beside cuBLAS through PyTorch."""

    def run(n: int) -> dict[str, Any]:
        a, b = drawn(n, n), drawn(n, n)[::-1].copy()
        f, same = bench.on(lambda a, b: a @ b), bench.on(lambda x: x + 0)
        there = same(a), same(b)
        correct = apart(f(*there), dlvm.function(lambda a, b: a @ b)(a, b))
        milliseconds = bench.best(lambda: f(*there))
        found = {"ms": milliseconds, "GFLOP/s": 2 * n**3 / 1e6 / milliseconds, **correct}
        theirs = None if bench.dry else of_pytorch(lambda t, a, b: t.matmul(a, b), (a, b))
        return (
            found
            if theirs is None
            else found | {"torch_ms": theirs, "share": theirs / milliseconds}
        )

    for n in (8, 16) if bench.dry else (512, 1024, 2048, 4096):
        yield f"{n}x{n}x{n}", functools.partial(run, n)


def large(bench: Bench) -> Iterator[Case]:
    """Large programs of many kinds, beside PyTorch's and a copy of as many bytes."""

    def run(name: str, case: Large) -> dict[str, Any]:
        arrays = [given(*shape) for shape in (case.dry if bench.dry else case.shapes)]
        f, there = bench.on(case.program), [bench.on(lambda x: x + 0)(a) for a in arrays]
        if case.dtype:
            there = [bench.on(lambda x: x.astype(case.dtype))(x) for x in there]
        result = f(*there)
        correct = apart(_compared(bench, case, result), _expected(case, arrays))
        milliseconds = bench.best(lambda: f(*there))
        found = {"ms": milliseconds, **correct}
        count = sum(x.nbytes for x in (*there, *dlvm.tree.leaves(result)))
        found["share_of_copy"] = count / 1e6 / milliseconds / copied(bench, count)
        if case.flops:
            found["TFLOP/s"] = case.flops / 1e9 / milliseconds
        theirs = None if bench.dry else of_pytorch(THEIRS[name], arrays, case.dtype)
        if theirs is not None:
            found |= {"torch_ms": theirs, "times_of_torch": milliseconds / theirs}
        return found

    for name, case in (LARGE | LOOPS).items():
        yield name, functools.partial(run, name, case)


def given(*shape: Any) -> Any:
    """Random numbers, or indices of rows."""
    if "index" not in shape:
        return drawn(*shape)
    rows, _, count = shape
    return np.random.default_rng(1).integers(0, rows, count)


def _compared(bench: Bench, case: Large, result: Any) -> Any:
    """The part of a result that is compared with a CPU's."""
    if not case.dtype:
        return result
    return np.asarray(bench.on(lambda x: x.astype("f64"))(result))[: case.compared]


def _expected(case: Large, arrays: Sequence[Any]) -> Any:
    """What a CPU gives for it."""
    if not case.dtype:
        return dlvm.function(case.program)(*arrays)

    def program(*xs: Any) -> Any:
        return case.program(*(x.astype(case.dtype) for x in xs)).astype("f64")

    first, *rest = arrays
    return dlvm.function(program)(first[: case.compared], *rest)


def training(bench: Bench) -> Iterator[Case]:
    """Steps of a classifier whose parameters stay on the device, and its loss on a CPU."""
    batch, width = bench.sized(512, 6), bench.sized(1024, 8)
    rng = np.random.default_rng(0)
    x = drawn(batch, bench.sized(784, 5))
    y = np.eye(10, dtype="f4")[rng.integers(0, 10, batch)]
    start = [
        0.03 * drawn(x.shape[1], width),
        drawn(width) * 0,
        0.03 * drawn(width, 10),
        drawn(10) * 0,
    ]

    def step(p: Any, x: Any, y: Any) -> Any:
        value, slopes = dlvm.value_and_grad(lambda p: loss(*p, x, y))(p)
        return [a - np.float32(0.1) * d for a, d in zip(p, slopes, strict=True)], value

    def run() -> dict[str, Any]:
        count = bench.sized(100, 3)
        f, g = bench.on(step, donate=("p",)), dlvm.function(step)
        ours, theirs, losses = list(start), list(start), list[float]()
        times: list[float] = []
        for i in range(count):
            before = time.perf_counter()
            ours, value = f(ours, x, y)
            losses.append(float(value))
            times.append(1e3 * (time.perf_counter() - before))
            if i < 5:
                theirs, expected = g(theirs, x, y)
                last = apart(value, expected)
        typical = statistics.median(times[len(times) // 2 :])
        return {"step_ms": typical, "first_loss": losses[0], "last_loss": losses[-1], **last}

    yield f"batch {batch}, width {width}", run


STEPS: dict[str, Callable[[Bench], Iterator[Case]]] = {
    "right": right,
    "launches": launches,
    "moving": moving,
    "products": products,
    "large": large,
    "training": training,
}


def bench_of(args: argparse.Namespace) -> Bench:
    """The run that the command line asks for."""
    end = time.monotonic() + args.seconds
    path = None if args.json is None else Path(args.json)
    if args.dry_run:
        return Bench(EmulatedDevice(races=False), "cuda", True, end, path)
    choose(args.backend, None)
    device: Any = current(named(OLDEST))
    return Bench(device, newest(*device.capability), False, end, path)


def newest(major: int, minor: int) -> str:
    """The newest processor that dlvm compiles for and a GPU of this capability runs."""
    known = [int(n) for name in PTX_VERSIONS if (n := name.removeprefix("sm_")).isdigit()]
    return f"cuda:sm_{max(n for n in known if n <= 10 * major + minor)}"


def main(argv: list[str] | None = None) -> Bench:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", help="the file to write")
    parser.add_argument("--seconds", type=float, default=540, help="when no further case starts")
    parser.add_argument("--backend", choices=("driver", "pycuda"), default="driver")
    parser.add_argument("--steps", nargs="*", choices=STEPS, default=list(STEPS))
    parser.add_argument("--dry-run", action="store_true", help="small arrays in the emulator")
    bench = bench_of(parser.parse_args(argv))
    about = {"name": bench.device.name, "target": bench.target}
    bench.case("run", "device", lambda: about)
    with using(bench.device):
        for step in parser.parse_args(argv).steps:
            for name, run in STEPS[step](bench):
                bench.case(step, name, run)
    return bench


if __name__ == "__main__":
    main()
