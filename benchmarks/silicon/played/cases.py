"""Cases in this process: what each gives goes to standard output, a line of JSON for each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .driver import CudaError, Gpu
from .recording import Bundle, Recording
from .theirs import milliseconds

SECONDS = 0.1
"""How long the calls between two events should take."""
MOST_CALLS, ROUNDS = 50, 5


def play(
    functions: Any, path: Path, mode: str, names: Sequence[str], seconds: float = SECONDS
) -> None:
    """Cases by name: ``probe`` the device, are they right by ``ptx`` or ``cubin``, or ``time``."""
    gpu = Gpu(functions)
    if mode == "probe":
        say({"case": "device", **gpu.about()})
        return
    bundle = Bundle(path)
    for name in names:
        say({"begin": name})
        result: dict[str, Any] = {"case": name}
        try:
            result |= played(gpu, bundle, name, mode, seconds)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
            if isinstance(error, CudaError) and error.lost:
                say(result)
                return  # a new process goes on
        say(result)


def say(result: dict[str, Any]) -> None:
    """One line for whoever started this process."""
    print(json.dumps(result), flush=True)


def played(gpu: Gpu, bundle: Bundle, name: str, mode: str, seconds: float) -> dict[str, Any]:
    """One case on the device."""
    start = time.perf_counter()
    recording, code = loaded(gpu, bundle, name, mode)
    before = time.perf_counter()
    recording.run()
    gpu.wait()
    first = time.perf_counter() - before
    found = {"code": code, "load_s": before - start, "first_s": first, **recording.judged()}
    if mode == "time":
        found |= timed(gpu, recording, max(1, min(MOST_CALLS, int(seconds / max(first, 1e-6)))))
    recording.free()
    return found


def loaded(gpu: Gpu, bundle: Bundle, name: str, mode: str) -> tuple[Recording, str]:
    """A case with its code; what is only timed goes by PTX where its machine code does not load."""
    if mode != "time":
        return Recording(gpu, bundle, name, mode), mode
    try:
        return Recording(gpu, bundle, name, "cubin"), "cubin"
    except (CudaError, KeyError):
        return Recording(gpu, bundle, name, "ptx"), "ptx"


def timed(gpu: Gpu, recording: Recording, calls: int) -> dict[str, Any]:
    """How fast a case is, beside a copy of as many bytes, a captured graph and PyTorch."""
    ms, host = best(gpu, recording.again, calls)
    told = recording.told
    found: dict[str, Any] = {"ms": ms, "launches": recording.launches}
    found["host_us_per_launch"] = host / max(1, recording.launches)
    moved = int(told["moved"])
    found["GB/s"] = moved / 1e6 / ms
    found["share_of_copy"] = copied(gpu, moved, calls) / ms
    if told["flops"]:
        found["TFLOP/s"] = told["flops"] / 1e9 / ms
    try:
        found["graph_ms"], found["graph_host_us"] = best(gpu, gpu.graph(recording.again), calls)
    except (CudaError, AttributeError) as error:
        found["graph_error"] = str(error)
    arrays, types = zip(*recording.inputs, strict=True) if recording.inputs else ((), ())
    theirs = milliseconds(recording.name, list(arrays), list(types), calls)
    if theirs is not None:
        found |= {"torch_ms": theirs, "times_of_torch": ms / theirs}
    return found


def best(gpu: Gpu, call: Callable[[], None], calls: int) -> tuple[float, float]:
    """The least milliseconds of a call on the device, and the microseconds on the host."""
    times: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        start, before = gpu.mark(), time.perf_counter()
        for _ in range(calls):
            call()
        host = 1e6 * (time.perf_counter() - before) / calls
        times.append((max(gpu.milliseconds(start, gpu.mark()) / calls, 1e-6), host))
    return min(ms for ms, _ in times), min(host for _, host in times)


def copied(gpu: Gpu, count: int, calls: int) -> float:
    """The milliseconds of a copy on the device that reads and writes so many bytes in all."""
    half = max(1, count // 2)
    first, second = gpu.allocate(half), gpu.allocate(half)
    try:
        return best(gpu, lambda: gpu.copy(first, second, half), calls)[0]
    finally:
        gpu.wait()
        gpu.free(first)
        gpu.free(second)
