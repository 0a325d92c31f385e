"""The whole run: batches of cases, each in a process of its own with a limit for each case.

A case that hangs or faults ends its process only; another one goes on with the cases after it.
What is found is written after each case, so a run that is cut off leaves what it had.
"""

from __future__ import annotations

import importlib.metadata
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .recording import Bundle

START = 30.0
"""Seconds that a process may take to start and reach the device."""
PACKAGES = ("torch", "cupy-cuda13x", "cupy-cuda12x", "jax", "pycuda", "triton", "llvmlite")
TOOLS = ("nvidia-smi", "compute-sanitizer", "ncu", "ptxas", "nvcc")
SERIAL = ("cumsum", "scatter", "sort", "cholesky", "solve", "qr", "eigh")
"""Words of large programs that may be slow, which come last."""
SANITIZED = ("softmax", "product", "product f16", "transpose", "layer norm")
PROFILED = ("product f16 4096", "softmax 65536x1024")


@dataclass
class Run:
    """A run: the packed file, how a process of cases is started, when to end, what was found."""

    bundle: Path
    command: Sequence[str]
    path: Path
    seconds: float
    start: float = field(default_factory=time.monotonic)
    found: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    @property
    def left(self) -> float:
        """Seconds until the run has to end."""
        return self.seconds - (time.monotonic() - self.start)

    def note(self, step: str, case: str, **result: Any) -> None:
        """What a case gave: on the screen and in the file, which is replaced in one piece."""
        at = round(time.monotonic() - self.start, 1)
        self.found.setdefault(step, {})[case] = {**result, "at_s": at}
        shown = ", ".join(
            f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {str(v)[:120]}"
            for k, v in result.items()
        )
        print(f"{step:10} {case:32} {shown}", flush=True)
        fresh = self.path.with_suffix(".part")
        fresh.write_text(json.dumps(self.found, indent=1), "utf8")
        fresh.replace(self.path)

    # -- a batch -----------------------------------------------------------------------------------

    def batch(self, step: str, mode: str, names: Sequence[str], limit: float) -> None:
        """Cases in processes: as many as it takes for all to have had their turn."""
        todo = list(names)
        while todo and self.left > 0:
            done = self._process(step, mode, todo, limit)
            todo = todo[done:]
        for name in todo:
            self.note(step, name, skipped="the time is over")

    def _process(self, step: str, mode: str, names: Sequence[str], limit: float) -> int:
        """One process; how many of the cases have had their turn when it ends, one at least."""
        with tempfile.TemporaryFile("w+") as said:
            process = subprocess.Popen(
                [*self.command, mode, *names], stdout=subprocess.PIPE, stderr=said, text=True
            )
            lines: queue.Queue[str | None] = queue.Queue()
            reader = threading.Thread(target=_lines, args=(process, lines), daemon=True)
            reader.start()
            now, ended, wait = names[0], 0, limit + START
            while True:
                seconds = max(0.1, min(wait, self.left))
                try:
                    line = lines.get(timeout=seconds)
                except queue.Empty:
                    process.kill()
                    process.wait()
                    reader.join()
                    self.note(step, now, error=f"no answer in {seconds:.0f} s, so it was killed")
                    return ended + 1
                if line is None:
                    break
                told = _told(line)
                if "begin" in told:
                    now, wait = told["begin"], limit
                elif "case" in told:
                    self.note(step, told.pop("case"), **told)
                    ended += 1
            if (process.wait() == 0 and ended) or ended == len(names):
                return ended
            said.seek(0)
            self.note(step, now, error=f"the process ended: {said.read()[-600:].strip()}")
            return ended + 1

    # -- steps -------------------------------------------------------------------------------------

    def machine(self) -> None:
        """What is there, whether there is a GPU or not."""
        there = {tool: bool(shutil.which(tool)) for tool in TOOLS}
        versions = {"python": sys.version.split()[0], "numpy": np.__version__}
        for package in PACKAGES:
            try:
                versions[package] = importlib.metadata.version(package)
            except importlib.metadata.PackageNotFoundError:
                continue
        query = "--query-gpu=name,driver_version,clocks.max.sm,memory.total"
        smi = self.shell(["nvidia-smi", query, "--format=csv,noheader"], 20)
        self.note("run", "machine", tools=there, versions=versions, nvidia_smi=smi)

    def shell(self, command: Sequence[str], limit: float) -> str:
        """The end of what a command says."""
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=max(1, min(limit, self.left))
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{type(error).__name__}: {error}"[:300]
        return (done.stdout + done.stderr).strip()[-4000:]

    def tools(self, step: str, tool: str, options: Sequence[str], names: Sequence[str]) -> None:
        """Cases under a tool of NVIDIA's, where there is one."""
        if self.left > 30 and shutil.which(tool) and names:
            command = [tool, *options, *self.command, "ptx", *names]
            self.note(step, " ".join(options[:2]), said=self.shell(command, 60))

    def all(self) -> bool:
        """The whole run; whether there is a GPU, and every case was right."""
        cases = Bundle(self.bundle).cases
        small = [n for n, told in cases.items() if not told["large"]]
        large = [n for n, told in cases.items() if told["large"]]
        large.sort(key=lambda n: any(word in n for word in SERIAL))
        self.machine()
        self.batch("run", "probe", ["device"], START)
        if "error" in self.found["run"]["device"]:
            return False
        self.batch("first", "ptx", small[:1], 30)
        with_code = [n for n in small if cases[n]["cubin"]]
        self.batch("cubin", "cubin", with_code, 30)
        self.batch("ptx", "ptx", small, 45)
        self.batch("large", "time", large, 40)
        self.batch("launches", "time", [n for n in small if cases[n]["timed"]], 30)
        known = [n for n in SANITIZED if n in small]
        for check in ("memcheck", "racecheck", "synccheck"):
            self.tools("sanitizer", "compute-sanitizer", ("--tool", check), known)
        for name in PROFILED:
            if name in large:
                options = ("-c", "1", "--section", "SpeedOfLight", "--section", "WarpStateStats")
                self.tools(f"profile of {name}", "ncu", options, [name])
        return self.end()

    def end(self) -> bool:
        """How many cases were right, and which were not; whether all were."""
        results = [
            (f"{step}: {case}", told)
            for step, cases in self.found.items()
            for case, told in cases.items()
            if step in ("first", "cubin", "ptx", "large", "launches")
        ]
        wrong = [name for name, told in results if not told.get("right")]
        right = len(results) - len(wrong)
        seconds = round(time.monotonic() - self.start, 1)
        self.note("run", "end", right=right, not_right=wrong, seconds=seconds)
        return not wrong


def _lines(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    """Hands on what a process says, and then that it has ended."""
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _told(line: str) -> dict[str, Any]:
    """What a line of a process says; other lines are of libraries."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
