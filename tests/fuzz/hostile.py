"""Bytes that nobody wrote in good faith: for the parser, the command line and the cache.

Whatever is read is refused with an error of the user's, or means something: then it can be
printed and read back, optimised and compiled. What the cache gives is right or made anew.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np

from dlvm.ad import expand
from dlvm.base.errors import UserError
from dlvm.cli import main
from dlvm.gen.build import build
from dlvm.gen.warm import compiled
from dlvm.ir import Module, parse
from dlvm.opt.pipelines import DEFAULT
from dlvm.passes import PASSES, run
from dlvm.target import Target
from dlvm.testing.drawing.dice import Dice, Seeded
from dlvm.testing.drawing.random_programs import EVERY, TRACED, random_program
from tests.damage import PIECES, damaged, survives

from .case import CORPUS
from .judge import Wrong, limit_memory
from .silly import silly

GOLDEN = CORPUS.parent / "golden"
EXIT_CODES = (0, 1, 2)


def text_of(dice: Dice) -> str:
    """A program that is right: a random one, or one that the suite keeps."""
    if dice.integer(0, 2):
        classes = dice.choose((TRACED, EVERY))
        return str(random_program(dice, classes, max_ops=8).module)
    kept = sorted([*GOLDEN.glob("*.dlvm"), *CORPUS.glob("*.dlvm")])
    return dice.choose(kept).read_text("utf8").partition("// ----\n")[0]


def parser(seed: int, current: Path) -> None:
    """Damaged text is refused, or is a program that goes the whole road."""
    dice = Seeded(seed)
    text = damaged(dice, text_of(dice))
    current.write_text(text, "utf8")
    module = survives(text)
    if module is None or not module.functions:
        return
    with contextlib.suppress(UserError):
        full = run(expand(module), DEFAULT, verify=True)
        if not full.main.params or dice.integer(0, 3) == 0:
            build(full)


def command(seed: int, current: Path) -> None:
    """The command line never fails with an exception, nor says that it is our fault."""
    dice = Seeded(seed)
    limit_memory()
    text = text_of(dice)
    current.write_text(damaged(dice, text) if dice.integer(0, 1) else text, "utf8")
    words = _words(dice, current)
    out, err = io.StringIO(), io.StringIO()
    given = io.StringIO(current.read_text("utf8"))
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch("sys.stdin", given),
    ):
        code = main(words)
    if code not in EXIT_CODES or "Traceback" in err.getvalue():
        raise Wrong(f"dlvm {' '.join(words)} gives {code}: {err.getvalue()[:300]}")


def _words(dice: Dice, file: Path) -> list[str]:
    """A command with options that fit it, and arguments that may not."""
    name = dice.choose(("show", "opt", "run", "diff", "check", "list"))
    if name == "list":
        return [name, dice.choose(("passes", "ops", "rules", "variables", "nothing"))]
    words = [name, dice.choose((str(file), "-"))]
    if name in ("opt", "diff") and dice.integer(0, 1):
        passes = [dice.choose(sorted(PASSES)) for _ in range(dice.integer(1, 4))]
        words += ["--passes", ",".join(passes)]
    if name == "show":
        words += ["--stage", dice.choose(("traced", "optimized", "kernels", "loops", "llvm"))]
    if name == "run":
        words += [option for s in "AB" for option in ("--size", f"{s}={dice.integer(0, 4)}")]
    for _ in range(dice.integer(0, 2)):
        piece = dice.choose(("f32[3]", "f64[A]", "1", "[1, 2]", "x0=3", "x=f32[A,B]", *PIECES))
        words.insert(dice.integer(2, len(words)), piece.replace("\0", ""))
    return words


# -- the cache --------------------------------------------------------------------------------

KEPT = (
    "dlvm 1\nfunc @main(%x: f32[N,M], %y: f32[M]) -> f32[N] {\n"
    "  %0 = broadcast %y shape=(N, M) axes=(1) : f32[N,M]\n  %1 = mul %x, %0 : f32[N,M]\n"
    "  %2 = tanh %1 : f32[N,M]\n  %3 = sum %2 axes=(1) : f32[N]\n  return %3\n}\n"
)
"""The program whose cached code is damaged."""


@cache
def _folder() -> Path:
    logging.getLogger("dlvm.cache").addHandler(logging.NullHandler())
    logging.getLogger("dlvm.cache").propagate = False
    return Path(tempfile.mkdtemp(prefix="dlvm-fuzz-cache-"))


def entries(seed: int, current: Path) -> None:
    """Damaged files of the cache are made anew, and the answer is the same."""
    dice = Seeded(seed)
    module = parse(KEPT)
    rows, columns = dice.integer(0, 4), dice.integer(0, 20)
    rng = np.random.default_rng(seed)
    args = [rng.normal(size=s).astype(np.float32) for s in ((rows, columns), (columns,))]
    where = {"DLVM_CACHE": "1", "DLVM_CACHE_DIR": str(_folder())}
    with mock.patch.dict("os.environ", where):
        cached(module)
        files = [f for f in _folder().rglob("*") if f.is_file()]
        if not files:
            raise Wrong("nothing was kept")
        file = dice.choose(sorted(files))
        file.write_bytes(corrupted(dice, file.read_bytes()))
        found = cached(module).run(args)
    expected = module.run("main", *args)
    if not np.allclose(found[0], expected[0], rtol=1e-5, atol=1e-5):
        raise Wrong(f"a damaged file of the cache gave {found[0]}, not {expected[0]}")


def cached(module: Module):
    """The program of a module, from the cache where it is there."""
    return compiled(module, Target.host(), lambda: run(module, DEFAULT))


def corrupted(dice: Dice, data: bytes) -> bytes:
    """Some bits flipped, the end cut off, a stretch doubled, or nothing but noise."""
    at = dice.integer(0, max(len(data) - 1, 0))
    match dice.integer(0, 3):
        case 0:
            changed = bytearray(data)
            for _ in range(dice.integer(1, 8) if data else 0):
                changed[dice.integer(0, len(data) - 1)] ^= 1 << dice.integer(0, 7)
            return bytes(changed)
        case 1:
            return data[:at]
        case 2:
            return data[:at] + data[at // 2 :]
        case _:
            return bytes(dice.integer(0, 255) for _ in range(dice.integer(0, 300)))


KINDS: dict[str, Callable[[int, Path], None]] = {
    "parser": parser,
    "command": command,
    "cache": entries,
    "silly": silly,
}
