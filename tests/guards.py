"""Every operation with guard pages around every buffer: machine code may touch nothing else.

    python -m tests.guards [--short] [--only matmul]

Arguments, results, constants and each temporary of a call stand in pages of their own, flush
against pages that nobody may touch: at their end in one run, at their start in another. A third run
is of code that checks every access by itself (``gen/checked/bounds.py``). A child process runs a
batch; one that is killed by a signal names operation, elements, seed and way on the last line that
it wrote.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import io
import mmap
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence

import numpy as np

import dlvm.gen.build
from dlvm.ad import expand
from dlvm.base.errors import CompilerError, UserError
from dlvm.gen.call.executable import Executable, Printer
from dlvm.gen.loops import status
from dlvm.gen.program.memory import Arena, intervals
from dlvm.gen.program.steps import Program as Steps
from dlvm.gen.runtime import call_words
from dlvm.ir import BF16, BOOL, F32, I8, I64, NUMBERS, OPS, Array, DType, Module, Op, parse
from dlvm.ops import Add, Mul, Neg, Tanh
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import run
from dlvm.testing.drawing.dice import Seeded
from dlvm.testing.drawing.drafts import Draft
from dlvm.testing.drawing.random_programs import TRACED, Program, of_one
from dlvm.trust.answers import Answer, Question, differ
from tests.running import draws

PAGE = mmap.PAGESIZE
WAYS = ("end", "start", "bounds")
SIZES = (0, 1, 2, 7, 16, 33)
SHORT = ((F32, 2), (I64, 1), (BF16, 1), (I8, 1))
ROW, STEPS = "row", "steps"
ROWS, SHORT_ROWS = (*range(1, 35), 63, 65, 127, 129), (3, 7, 15, 33)
BATCH = 12
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


class Guarded:
    """Memory between two pages that nobody may touch."""

    def __init__(self, size: int, side: str) -> None:
        room = -(-max(size, 1) // PAGE) * PAGE
        self.map = mmap.mmap(-1, room + 2 * PAGE)
        self.begin = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        for at in (self.begin, self.begin + PAGE + room):
            forbid(at, PAGE)
        self.address = self.begin + PAGE + (room - size if side == "end" else 0)

    def array(self, like: Array) -> Array:
        """An array of this memory that holds what another does."""
        raw = (ctypes.c_char * like.nbytes).from_address(self.address)
        found = np.frombuffer(raw, like.dtype).reshape(like.shape)
        found[...] = like
        return found


def forbid(address: int, size: int) -> None:
    """Let nobody touch some pages."""
    if LIBC.mprotect(address, size, mmap.PROT_NONE if hasattr(mmap, "PROT_NONE") else 0):
        raise OSError(ctypes.get_errno(), "mprotect")


def spread(steps: Steps, side: str) -> tuple[Arena, list[int]]:
    """A plan in which each temporary has pages of its own, and the pages between them."""
    offsets, between, at = {}, [], PAGE
    for storage in intervals(steps):
        size = int(storage.bytes)  # type: ignore[call-overload]
        room = -(-max(size, 1) // PAGE) * PAGE
        offsets[storage] = at + (room - size if side == "end" else 0)
        between.append(at + room)
        at += room + PAGE
    return Arena(offsets, at), [0, *between]


def built(module: Module, side: str) -> tuple[Executable, list[int]]:
    """A program whose temporaries stand apart, and the pages between them."""
    plan, pages = dlvm.gen.build.plan, []

    def apart(steps: Steps) -> Arena:
        arena, between = spread(steps, side)
        pages.extend(between)
        return arena

    dlvm.gen.build.plan = apart
    try:
        return dlvm.gen.build.build(module), pages
    finally:
        dlvm.gen.build.plan = plan


def called(
    code: Executable, pages: Sequence[int], arrays: Sequence[Array], side: str
) -> list[Array] | None:
    """The results of a call in which every buffer is guarded; None where it ends in an error."""
    face = code.interface
    held = [Guarded(a.nbytes, side) for a in (*arrays, *face.constants)]
    given = [g.array(np.asarray(a)) for g, a in zip(held, (*arrays, *face.constants), strict=True)]
    blank = [np.zeros([int(n) for n in r.type.shape], r.type.dtype.numpy) for r in face.results]  # type: ignore[call-overload]
    out = [Guarded(b.nbytes, side) for b in blank]
    results = [g.array(b) for g, b in zip(out, blank, strict=True)]
    arena = mmap.mmap(-1, int(face.arena) + PAGE)  # type: ignore[call-overload]
    base = ctypes.addressof(ctypes.c_char.from_buffer(arena))
    for page in pages:
        forbid(base + page, PAGE)
    words = (ctypes.c_int64 * status.WORDS)()
    context = (ctypes.c_int64 * call_words.WORDS)(*code._context(code._budget()).tolist())
    printer = Printer(lambda index, address, sizes: 0)
    context[call_words.PRINTER] = ctypes.cast(printer, ctypes.c_void_p).value or 0
    tables = [_table(given[: len(arrays)]), _table(results), _table(given[len(arrays) :])]
    code._call(tables[0], tables[1], base, (ctypes.c_int64 * 1)(), tables[2], words, context)
    return None if words[0] else [np.array(r) for r in results]


def _table(arrays: Sequence[Array]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(arrays), 1))(*(a.ctypes.data for a in arrays))


# -- programs ------------------------------------------------------------------------------------


def sample(cls: type[Op], dtype: DType, seed: int) -> Program | None:
    """A small program of one operation on such elements, where this seed gives one."""
    d = Draft(Seeded(seed), (dtype, I64, BOOL), SIZES, (Add, Mul, Neg, Tanh), most=2000)
    with contextlib.suppress(UserError):
        return of_one(d, cls, (dtype, I64, BOOL, dtype), {})
    return None


def row(dtype: DType, length: int) -> Program:
    """One row, of which vectors leave some elements over: added up, put together, written on."""
    one, two = f"{dtype}[1,{length}]", f"{dtype}[1,{2 * length}]"
    text = f"""dlvm 1
    func @main(%x: {one}) -> ({dtype}[1], {dtype}[1], {one}) {{
      %s = sum %x axes=(1) : {dtype}[1]
      %c = concat [%x, %x] axis=1 : {two}
      %t = sum %c axes=(1) : {dtype}[1]
      %d = add %x, %x : {one}
      return %s, %t, %d
    }}"""
    x = (np.arange(length).reshape(1, length) % 5).astype(dtype.numpy)
    return Program(parse(text), (x,))


def steps(dtype: DType, length: int) -> Program:
    """One row backwards, and every second to fifth of its elements; their sums."""
    results, lines = [], []
    for step in (-1, 2, 3, 4, 5):
        start, size = (length - 1, length) if step < 0 else (0, -(-length // step))
        y, types = f"%{len(results)}", (f"{dtype}[1,{size}]", f"{dtype}[1]")
        slice_ = f"slice %x starts=(0,{start}) sizes=(1,{size}) steps=(1,{step})"
        lines += [f"{y}a = {slice_} : {types[0]}", f"{y} = add {y}a, {y}a : {types[0]}"]
        lines += [f"{y}s = sum {y} axes=(1) : {types[1]}"]
        results += [(y, types[0]), (f"{y}s", types[1])]
    (names, types), body = zip(*results, strict=True), "\n".join(lines)
    text = f"""dlvm 1
    func @main(%x: {dtype}[1,{length}]) -> ({", ".join(types)}) {{
      {body}
      return {", ".join(names)}
    }}"""
    x = (np.arange(length).reshape(1, length) % 5).astype(dtype.numpy)
    return Program(parse(text), (x,))


ALONG = {ROW: row, STEPS: steps}


def made(name: str) -> Program | None:
    """The program of a name: operation or what is done along a row, elements, seed or length."""
    kind, dtype, number = name.split()
    elements, n = next(t for t in NUMBERS if str(t) == dtype), int(number)
    return ALONG[kind](elements, n) if kind in ALONG else sample(OPS[kind], elements, n)


def cases(short: bool, only: str) -> Iterator[str]:
    """The names of programs."""
    kinds = SHORT if short else tuple((t, 6) for t in NUMBERS)
    lengths = SHORT_ROWS if short else ROWS
    some = [cls for cls in TRACED if not short or draws(cls.name, 3)]
    names = [f"{cls.name} {t} {seed}" for cls in some for t, n in kinds for seed in range(n)]
    names += [f"{kind} {t} {n}" for kind in ALONG for t in NUMBERS if t != BOOL for n in lengths]
    for name in names:
        if only in ("", name.split()[0]) and made(name) is not None:
            yield name


def _guarded(module: Module, program: Program, side: str) -> list[Array] | None:
    code, pages = built(module, side)
    return called(code, pages, program.arrays, side)


def _checked(module: Module, arrays: Sequence[Array]) -> list[Array] | None:
    """The results of code that checks itself; an access outside is an error of ours."""
    code = dlvm.gen.build.build(module, check=True)
    try:
        return [*code.run([np.array(a) for a in arrays], lambda text: None)]
    except UserError:
        return None


def check(program: Program, way: str) -> str:
    """What is wrong with a program, guarded; nothing where all is right."""
    full = expand(program.module)
    module, question = run(full, DEFAULT), Question(full, program.arrays)
    results = (
        _checked(module, program.arrays) if way == "bounds" else _guarded(module, program, way)
    )
    if question.answer.error is not None or results is None:
        return "" if (question.answer.error is None) == (results is not None) else "an error"
    off = differ(question, Answer(tuple(results), question.answer.told), question)
    return str(off or "")


def ways(name: str) -> tuple[str, ...]:
    """What a short run does: pages at one side, and each operation checks itself once."""
    kind, dtype, number = name.split()
    if kind in ALONG:
        return ("end",)
    side = WAYS[int(number) % 2]
    return (side, "bounds") if (dtype, number) == ("f32", "0") else (side,)


def child(names: Collection[str], short: bool = False) -> None:
    """A batch of programs, each told before it is run."""
    for name in names:
        program = made(name)
        assert program is not None
        for way in ways(name) if short else WAYS:
            print(f"try {name} {way}", flush=True)
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    said = check(program, way)
            except CompilerError as error:
                said = str(error)
            if said:
                print(f"FAIL {name} {way} {said}", flush=True)


def guards(short: bool = False, only: str = "") -> list[str]:
    """What every batch says that is wrong."""
    names = [*cases(short, only)]
    told: list[str] = []
    size = len(names) if short else BATCH * 8
    batches = [names[i : i + size] for i in range(0, len(names), max(size, 1))]
    while batches:
        batch = batches.pop(0)
        command = [sys.executable, "-m", "tests.guards", *["--short"] * short, "--child", *batch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        lines = done.stdout.splitlines()
        found = [line for line in lines if line.startswith("FAIL")]
        if done.returncode:
            last = lines[-1].removeprefix("try ") if lines else "nothing"
            how = signal.Signals(-done.returncode).name if done.returncode < 0 else "an exception"
            found.append(f"DIED {last}: {how} {done.stderr.strip()[-300:]}")
            died = " ".join(last.split()[:3])
            if died in batch:  # the rest of the batch goes on
                batches.insert(0, batch[batch.index(died) + 1 :])
                batches = [b for b in batches if b]
        told += found
        print(*found, sep="\n", end="\n" if found else "", flush=True)
    print(f"{len(names)} programs between pages and checked, {len(told)} failures")
    return told


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description="operations between guard pages")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--only", default="", help="the name of one operation")
    parser.add_argument("--child", nargs="*")
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, options.short)
        return 0
    return 1 if guards(options.short, options.only) else 0


if __name__ == "__main__":
    sys.exit(main())
