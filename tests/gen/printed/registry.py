"""Every operation on every device whose kernels are printed, beside the interpreter.

    python -m tests.gen.printed.registry [--device opencl] [--only sort] [--seeds 2] [--programs]

Each operation is placed in small programs of each element type, as random programs place it.
Whole numbers must be equal, and floats may differ by what rounding explains; a device that promises
the bits of a CPU must have them. What a language has not is refused when a program is compiled, for
a reason that ``REFUSED`` holds. With ``--programs`` the same is done for the 39 named programs that
are written ahead of time, and for 100 random ones. Child processes run the programs in batches, and
one that takes more than ``LIMIT`` seconds is killed and told as slow.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import queue
import re
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

import dlvm
from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.gen.build import build
from dlvm.gen.gpu import execution
from dlvm.gen.gpu.devices.choosing import printed
from dlvm.gen.gpu.executable import built
from dlvm.gen.printed.languages import DIALECTS
from dlvm.ir import BOOL, I64, NUMBERS, OPS, Array, DType, Module, Op
from dlvm.ops import Add, Mul, Neg, Tanh
from dlvm.ops.families import Running
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.targets import named
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft
from dlvm.testing.drawing.random_programs import WEIGHTED, Program, of_one, random_program
from dlvm.trust.answers import Answer, Question, answered, differ
from tests.gen.aot.programs import SILENT, programs
from tests.gen.aot.test_everywhere import difference
from tests.gen.values import same_bits
from tests.table import on_a_rank

DEVICES = tuple(DIALECTS)
"""The devices that are tried: one more dialect is one more device."""
SIZES = (3, 2, 5, 1, 33, 0)
LIMIT = 20.0
"""Seconds that one program may take, with what the driver needs to compile it."""
START = 60.0
"""Seconds that a child process may take to begin."""
BATCH = 40
"""Programs of a child process, as drivers keep what they compiled."""
RANDOM = 100
SEEDS = 100
"""Seeds that are tried for a sample of an operation on elements of a type."""
NEAR = {"opencl": 0}
"""How far results of named programs may be from a CPU's, in units in the last place of the largest
element; functions that round a product and a sum twice are as far as with WebAssembly."""
TWICE = 16
NAMED, DRAWN = "program:", "drawn:"
STATES = ("right", "refused", "slow", "wrong")

COMMAND = ("-m", "tests.gen.printed.registry", "--child")

REFUSED: dict[tuple[str, str], str] = {
    ("webgpu", "f64"): r"WGSL has no arrays of f64",
    ("webgpu", "functions of numbers of f64"): r"WGSL has no \w+ of f64",
    ("webgpu", "lgamma"): r"WGSL has no lgamma of f32",
    ("webgpu", "digamma"): r"WGSL has no digamma of f32",
}
"""What a device has not, by its name and that of an operation or a type: the error that says so."""


# -- programs ------------------------------------------------------------------------------------


def sample(cls: type[Op], dtype: DType, seed: int) -> Program | None:
    """A small program of one operation on such elements, where this seed gives one."""
    d = Draft(Seeded(seed), (dtype, I64, BOOL), SIZES, (Add, Mul, Neg, Tanh), most=2000)
    with contextlib.suppress(UserError):
        return of_one(d, cls, (dtype, I64, BOOL, dtype), {})
    return None


def drawn(device: str, seed: int) -> Program:
    """A random program of types that the language of a device has."""
    absent = DIALECTS[device].absent
    dtypes = [t for t in WEIGHTED if t.name not in absent]
    return random_program(seed, SILENT, dtypes, symbolic=False)


def made(device: str, name: str) -> Program | None:
    """The program of a name: an operation, or that programs are drawn, elements, and a seed."""
    kind, dtype, seed = name.split()
    if kind == DRAWN:
        return drawn(device, int(seed))
    return sample(OPS[kind], next(t for t in NUMBERS if str(t) == dtype), int(seed))


def of_operations(only: str, seeds: int) -> Iterator[str]:
    """The names of programs of one operation: for each type some that compute with it."""
    for cls in OPS.values():
        if only not in ("", cls.name):
            continue
        names = [f"{cls.name} {t} {seed}" for t in NUMBERS for seed in fitting(cls, t, seeds)]
        rest = (f"{cls.name} {t} {seed}" for t in NUMBERS for seed in range(SEEDS))
        yield from names or [name for name in rest if made("", name) is not None][:seeds]


def fitting(cls: type[Op], dtype: DType, count: int) -> list[int]:
    """The first seeds that give an operation an element of this type to take or to give."""
    found: list[int] = []
    for seed in range(SEEDS):
        program = sample(cls, dtype, seed)
        ops = [] if program is None else program.module.main.ops
        types = [v.type for op in ops if isinstance(op, cls) for v in (*op.operands, *op.results)]
        if any(t.dtype == dtype and 0 not in t.shape for t in types):
            found.append(seed)
        if len(found) == count:
            break
    return found


def of_programs(only: str) -> Iterator[str]:
    """The names of the programs that are named, and of the random ones."""
    yield from (f"{NAMED} {p.name} 0" for p in programs() if only in ("", p.name))
    yield from (f"{DRAWN} all {seed}" for seed in range(RANDOM) if only in ("", DRAWN))


# -- one program ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What became of a program: ``right``, ``refused``, ``wrong`` or ``slow``, and why."""

    state: str
    reason: str = ""


def outcome(device: str, name: str) -> Outcome:
    """What became of a program on a device."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wrong = _named(device, name) if name.startswith(NAMED) else _made(device, name)
    except Refusal as refusal:
        return refusal.outcome(device, name)
    except Exception as error:
        return Outcome("wrong", f"{type(error).__name__}: {_line(error)}")
    return Outcome("wrong" if wrong else "right", wrong)


class Refusal(Exception):
    """A program that a device has not run, with the error that says why."""

    def outcome(self, device: str, name: str) -> Outcome:
        """Refused, where the table says so; else wrong."""
        error = self.__cause__
        said = _line(error)
        for (whose, what), reason in REFUSED.items():
            if whose == device and re.search(reason, said):
                return Outcome("refused", what)
        return Outcome("wrong", f"{type(error).__name__}, which no table holds: {said}")


def _line(error: BaseException | None) -> str:
    return (str(error).strip().splitlines() or [""])[0]


def _made(device: str, name: str) -> str:
    """What is wrong with a drawn program; nothing where all is right."""
    program = made(device, name)
    assert program is not None
    found: list[str] = []
    cls = OPS.get(name.split()[0], Op)
    on_a_rank(cls, lambda: found.append(check(device, program)))
    return found[0]


def check(device: str, program: Program) -> str:
    """How the results on a device differ from those of the interpreter, and of the CPU."""
    full = expand(program.module.verify())
    module, question = run(full, DEFAULT), Question(full, program.arrays)
    given = [np.array(a) for a in program.arrays]
    expected, found = question.answer, answer(device, module, given)
    if found.error is not None and type(found.error) is not type(expected.error):
        raise Refusal from found.error
    if expected.error is not None:
        return "" if found.error is not None else f"no error: {_line(expected.error)}"
    wrong = differ(question, found, question)
    if wrong is None and promises_bits(device, module):
        return other_bits(build(module).run(given, lambda _: None), found.results)
    return str(wrong or "")


def answer(device: str, module: Module, given: Sequence[Array]) -> Answer:
    """The answer of a device, with the lines that its host prints."""

    def run_it(write: Callable[[Any], None]) -> list[Array]:
        with mock.patch.object(execution, "print", write, create=True):
            return [np.asarray(x) for x in built(module, named(device)).run(given)]

    return answered(run_it)


def promises_bits(device: str, module: Module) -> bool:
    """Whether a device gives the bits of a CPU; running folds have the order of a GPU."""
    if not DIALECTS[device].fuses:
        return False
    return not any(isinstance(op, Running) for fn in module.functions for op in fn.walk())


def other_bits(expected: Sequence[Array], found: Sequence[Array]) -> str:
    """Where results have other bits than those of a CPU."""
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        if not same_bits(a, np.asarray(b)):
            at = tuple(np.argwhere((a != b) & ~((a != a) & (b != b)))[:1].ravel())
            return f"result {i}{at}: expected the bits of {b[at]} of a CPU, found {a[at]}"
    return ""


def _named(device: str, name: str) -> str:
    """What is wrong with a named program."""
    program = next(p for p in programs() if p.name == name.split()[1])
    staged = dlvm.function(program.function, donate=program.donate, target=device)
    expected = program.expected()
    try:
        arrays = [np.array(x) if isinstance(x, np.ndarray) else x for x in program.arrays]
        found = [np.asarray(x) for x in dlvm.tree.leaves(staged(*arrays))]
    except UserError as error:
        raise Refusal from error
    apart = difference(found, expected)
    return (
        f"{apart:.3g} units of the largest element apart" if apart > NEAR.get(device, TWICE) else ""
    )


# -- child processes -----------------------------------------------------------------------------


def child(device: str) -> None:
    """Runs the programs whose names come in, one a line, and tells what became of each."""
    print("ready", flush=True)
    for line in sys.stdin:
        found = outcome(device, line.strip())
        print(f"{found.state} {found.reason}".replace("\n", " "), flush=True)


class Child:
    """A process that runs programs on a device."""

    def __init__(self, device: str) -> None:
        command = [sys.executable, *COMMAND, device]
        self.process: Any = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "DLVM_CACHE": "0"},
        )
        self.lines: queue.Queue[str] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.left = BATCH
        self.answer(START)

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put("")

    def answer(self, seconds: float) -> str:
        """The next line; nothing where the process has ended, an error where it takes too long."""
        return self.lines.get(timeout=seconds).strip()

    def run(self, name: str) -> Outcome:
        """What became of a program."""
        self.left -= 1
        try:
            self.process.stdin.write(f"{name}\n")
            self.process.stdin.flush()
            state, _, reason = self.answer(LIMIT).partition(" ")
        except queue.Empty:
            self.end()
            return Outcome("slow", f"no answer in {LIMIT:.0f} s")
        except BrokenPipeError:
            state, reason = "", ""
        if not state:
            self.end()
            return Outcome("wrong", f"the process ended with {self.process.returncode}")
        return Outcome(state, reason)

    def end(self) -> None:
        """Ends the process."""
        self.left = 0
        self.process.kill()
        self.reader.join()
        with contextlib.suppress(BrokenPipeError), self.process:
            pass


def outcomes(device: str, names: Collection[str]) -> Iterator[tuple[str, Outcome]]:
    """What became of each program."""
    process = None
    for name in names:
        if process is None or not process.left:
            if process is not None:
                process.end()
            process = Child(device)
        found = process.run(name)
        if found.state == "slow":  # once more, as others may have kept the machine busy
            process = Child(device)
            found = process.run(name)
        yield name, found
    if process is not None:
        process.end()


def absent(device: str) -> str:
    """Why a device cannot be tried here, if it cannot."""
    try:
        printed(device, 0)
    except UserError as error:
        return _line(error)
    return ""


# -- the command ---------------------------------------------------------------------------------


def registry(device: str, names: Sequence[str]) -> bool:
    """Tells what is wrong on a device, and what is refused; whether nothing is wrong."""
    start, counts, reasons = time.perf_counter(), Counter[str](), Counter[str]()
    for name, found in outcomes(device, names):
        counts[found.state] += 1
        if found.state == "refused":
            reasons[found.reason] += 1
        elif found.state != "right":
            print(f"{device} {name}: {found.state}: {found.reason}", flush=True)
    for reason, count in reasons.most_common():
        print(f"{device}: {count} refused: {reason}")
    told = ", ".join(f"{counts[state]} {state}" for state in STATES)
    print(
        f"{device}: {len(names)} programs: {told}; {time.perf_counter() - start:.0f} s", flush=True
    )
    return not counts["wrong"] + counts["slow"]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.gen.printed.registry")
    parser.add_argument("--device", choices=DEVICES, action="append", help="by default all")
    parser.add_argument("--only", default="", help="the name of one operation or program")
    parser.add_argument("--seeds", type=int, default=1, help="programs of each operation and type")
    parser.add_argument("--programs", action="store_true", help="named programs and random ones")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    right = True
    for device in options.device or DEVICES:
        if why := absent(device):
            print(f"{device}: not run: {why}")
            continue
        names = (
            of_programs(options.only)
            if options.programs
            else of_operations(options.only, options.seeds)
        )
        right &= registry(device, list(names))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
