"""Calls of every public name with arguments that make no sense, staged and not.

Each call gives a result, or an error that speaks about the user's call: a ``UserError``, or what
an object of the caller's own raised. An error that says that dlvm is at fault, and an exception
of Python's that nobody explained, are failures of this subject.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import signal
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import dlvm
from dlvm.base.errors import CompilerError, UserError
from dlvm.dsl.trace.tensor import METHODS
from dlvm.dsl.words.names import every_name
from dlvm.dsl.words.origins import frames
from dlvm.testing.drawing.dice import Dice, Seeded

from .judge import Wrong, limit_memory

CALLS = 50
"""How many calls one seed makes."""
LINES = 12
SECONDS = 2.0
"""A loop of 2**62 turns is what was asked for: such a call is cut off."""
MODULES = ("linalg", "nn", "random", "tree")
Call = Callable[..., Any]


class Mine(Exception):
    """What the hostile object raises."""


class CutOff(BaseException):
    """The call took too long."""


class Hostile:
    """An object that raises, whatever is asked of it."""

    def _raise(self, *args: Any, **kwargs: Any) -> Any:
        raise Mine

    __len__ = __iter__ = __bool__ = __index__ = __float__ = __call__ = __array__ = _raise
    __getitem__ = __eq__ = __add__ = __radd__ = __mul__ = __format__ = __lt__ = _raise
    __hash__ = None  # type: ignore[assignment]


class Quiet:
    """An object with nothing to say."""


class Shapeless:
    """An object that pretends to be an array."""

    shape = "three"
    dtype = None
    ndim = -1

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.ones(2)


X = np.arange(6.0).reshape(2, 3) / 4
PLAIN: tuple[Any, ...] = (
    *(None, "x", "float64", "f32", b"bytes", [], (), {}, set[int](), [[1, 2], [3]], [[1.0], [2.0]]),
    *(True, False, 0, 1, -1, 3, -7, 2**31, 2**62, 2**70, -(10**30), 0.5, float("nan"), 1j),
    *(abs, len, lambda x: x, lambda: 1, lambda x, y: x, lambda *a: None, print, float, int, object),
    *({"a": X}, {1: X, "b": X}, [X, X[0]], (X, X), slice(None), Ellipsis, np, dlvm, dlvm.spec),
    *(
        np.array(2.0),
        np.array(1),
        np.array(-1, np.int8),
        np.array(True),
        np.ones(0),
        np.ones(3),
        X,
        np.ones((2, 2)),
        np.ones((3, 2, 2), np.float32),
    ),
    *(np.arange(3), np.array([True, False]), np.array(["a", "b"]), np.array([1j, 2])),
    *(np.array(["2020-01-01"], "M8[D]"), np.array([1, None], object), np.ones(2, ">f8")),
    *(np.ma.masked_array([1.0, 2.0], [True, False]), np.float32(1), np.int64(2), np.float64),
    *(np.datetime64("2020-01-01"), np.dtype("f4"), np.zeros(2, [("a", "f4")]), range(3)),
    *(dlvm.function(lambda x: x), dlvm.spec("f32[3]"), iter([1]), memoryview(b"abc"), ValueError),
    *(Quiet(), Hostile(), Hostile, Shapeless(), (0, 0), (-1,), (0, 1, 2), [0.5], ("a",), (None, 1)),
)
"""Every kind of argument; some are right for some parameters."""
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    PLAIN = (*PLAIN, np.matrix([[1.0, 2.0]]))


@cache
def subjects() -> tuple[tuple[str, Call], ...]:
    """Every public name that can be called, methods and operators of staged values too."""
    found: dict[str, Call] = {}
    for name in [*dlvm.__all__, *every_name()]:
        found[f"dlvm.{name}"] = getattr(dlvm, name)
    for module in MODULES:
        room = getattr(dlvm, module)
        found |= {f"dlvm.{module}.{name}": getattr(room, name) for name in room.__all__}
    found |= {f"staged.{name}": _method(name) for name in (*METHODS, *OPERATORS, *CHANGES)}
    found |= {f"np.{name}": getattr(np, name) for name in every_name() if hasattr(np, name)}
    found |= MADE
    return tuple((n, f) for n, f in found.items() if callable(f) and not _is_error(f))


def _is_error(f: Any) -> bool:
    return isinstance(f, type) and issubclass(f, BaseException)


OPERATORS = tuple(f"__{n}__" for n in ("add", "rpow", "matmul", "getitem", "setitem", "lt", "iadd"))
CHANGES = ("__deepcopy__", "__round__", "__format__", "__contains__", "__divmod__", "__no_such__")


def _method(name: str) -> Call:
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(x, name)(*args, **kwargs)

    return call


MADE: dict[str, Call] = {
    "function()": lambda *args, **options: dlvm.function(lambda x: x * 2)(*args, **options),
    "function.compile": lambda *args, **named: dlvm.function(lambda x: x).compile(*args, **named),
    "function.bind": lambda **named: dlvm.function(lambda x, y: x).bind(**named),
    "grad()": lambda *args: dlvm.grad(lambda x: x.sum())(*args),
    "grad(wrt)": lambda wrt, *args: dlvm.grad(lambda x: x.sum(), wrt=wrt)(*args),
    "vmap()": lambda axes, *args: dlvm.vmap(lambda *x: x, in_axes=axes)(*args),
    "vjp()": lambda *args: dlvm.vjp(lambda x: x * 2, X)[1](*args),
    "linearize()": lambda *args: dlvm.linearize(lambda x: x * 2, X)[1](*args),
    "at.set": lambda x, i, v: dlvm.at(x, i).set(v),
    "at.add": lambda x, i, v: dlvm.at(x, i).add(v),
    "x[i]": lambda x, i: x[i],
    "trace()": lambda *args: dlvm.trace(lambda *xs: xs, *args),
    "debug()": lambda **options: dlvm.debug(**options).__enter__().__exit__(None, None, None),
}
"""What public names give is called too."""


AXES = (0, 1, -1, 2, 5, -3, (0, 1), (0, 0), (1, 0), (0, 5), (), None, True)
SIZES = (3, -1, (2, 3), (3, 2), (-1, 2), (6,), (4, 4), (0,), (), (2**62, 2**62), -5)
APT: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("axis", "axes", "source", "destination", "axis1", "axis2", "shift"), AXES),
    **dict.fromkeys(("shape", "repetitions", "indices_or_sections", "n", "k", "num"), SIZES),
    **dict.fromkeys(("dtype", "from_", "to", "kind"), ("f4", "f32", int, bool, "b", "M8[D]", None)),
    **dict.fromkeys(("f", "fun", "fn", "true_fun", "body_fun"), (abs, len, lambda x: x, print)),
    **dict.fromkeys(("arrays", "xs", "primals", "tangents"), ([X, X], (X, X[0]), [], (X,), X, [1])),
    **dict.fromkeys(("indices", "obj", "index"), (0, [0, 1], np.arange(3), -9, X > 0, slice(1))),
    **dict.fromkeys(
        ("mode", "method", "side", "policy", "ord"), ("same", "wrap", "left", 2, "fro")
    ),
    **dict.fromkeys(("keepdims", "has_aux", "where", "reverse"), (True, False, X > 0, X[0] > 0)),
    "operands": ("ij,jk->ik", "ii", "i->ij", "ij,ij", "...", "->", "i,j", X, X[0], [0, 1], "zz->z"),
    "key": (np.array([0, 1], np.uint32), np.ones(2), 0),
}
"""Arguments that make sense for a parameter, or nearly."""


def drawn(dice: Dice, fn: Call, staged: tuple[Any, ...]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for a call; the first is one that makes sense more often than the others."""
    parameters = _parameters(fn)
    positional = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
    usual = dice.integer(0, max(len(positional), 1))
    every = (*PLAIN, *staged * 4)
    args = [dice.choose(every) for _ in range(min(usual + (dice.integer(0, 9) == 0), 6))]
    every = tuple(map(_own, every))
    for i, parameter in enumerate(positional[: len(args)]):
        if parameter.name in APT and dice.integer(0, 2):
            args[i] = _own(dice.choose(APT[parameter.name]))
    if args and dice.integer(0, 1) and not (parameters and parameters[0].name in APT):
        args[0] = dice.choose((X.copy(), abs, *staged[:1])) if dice.integer(0, 1) else X.copy()
    names = [p.name for p in parameters[len(args) :]] or ["axis"]
    picked = {dice.choose((*names, "axis")) for _ in range(dice.integer(0, 2))}
    named = {n: dice.choose((*every, *APT.get(n, ()) * 20)) for n in sorted(picked)}
    return args, named


def _own(x: Any) -> Any:
    """An array that a call may change."""
    return x.copy() if isinstance(x, np.ndarray) else x


def _parameters(fn: Call) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError):
        return []


def silly(seed: int, current: Path) -> None:
    """Some calls, each staged or not, each judged."""
    limit_memory()
    dice = Seeded(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        for _ in range(CALLS):
            name, fn = dice.choose(subjects())
            once(dice, name, fn)


def once(dice: Dice, name: str, fn: Call) -> None:
    """One call of one function."""
    if dice.integer(0, 1):
        args, named = drawn(dice, fn, ())
        judged(name, args, named, lambda: fn(*args, **named))
        return

    said: list[Any] = []

    def program(x: Any, n: Any) -> Any:
        said[:] = drawn(dice, fn, (x, x[0], n[0], n, x[0, 0]))
        args, named = said
        fn(*args, **named)
        return x

    dynamic = {"x": "N,3"} if dice.integer(0, 2) == 0 and name[0] != "_" else False
    staged = dlvm.function(program, dynamic=dynamic)
    judged(f"{name} staged", said, {}, lambda: staged.trace(X, np.arange(3)))


def judged(name: str, args: Any, named: Any, call: Call) -> None:
    """Make a call; ``Wrong`` where what it raises is no answer to a user."""
    try:
        with warnings.catch_warnings(), limited():
            warnings.simplefilter("ignore")
            call()
    except UserError as error:
        text = str(error)
        placed = "  --> " in text or name.startswith("dlvm.Module")
        if len(text.splitlines()) > LINES or text.count("help: ") != 1 or not placed:
            raise Wrong(f"{name}{_shown(args, named)}: no message for users: {text}") from error
    except (Mine, CutOff, MemoryError, KeyboardInterrupt, SystemExit):
        pass
    except BaseException as error:
        if isinstance(error, CompilerError) or not _of_the_caller(error):
            said = f"{type(error).__name__}: {str(error).splitlines()[:1]}"
            raise Wrong(f"{name}{_shown(args, named)}: {said}") from error


def _of_the_caller(error: BaseException) -> bool:
    """Whether the caller's code raised it, or NumPy and Python did when the caller asked them."""
    names = [at.tb_frame.f_globals.get("__name__", "") for at in frames(error.__traceback__)]
    if names and names[-1] in ENTRIES:  # who decided there that the code of the caller raised it
        return True
    last = next((n for n in reversed(names) if n.partition(".")[0] in ("dlvm", "tests")), "")
    return last.startswith("tests")


def is_collecting(frame: FrameType | None) -> bool:
    """Whether Python runs what happens when an object goes: a callback of a weak reference."""
    while frame is not None:
        if frame.f_code.co_filename == weakref.__file__ or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


ENTRIES = ("dlvm.dsl.trace.facing", "dlvm.dsl.elements.eager", "dlvm.dsl.call.function")


def _shown(args: Any, named: Any) -> str:
    return f"({', '.join([*map(_text, args), *(f'{k}={_text(v)}' for k, v in named.items())])})"


def _text(x: Any) -> str:
    try:
        return f"{x!r:.40}".replace("\n", " ")
    except Exception:
        return type(x).__name__


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Cut off what takes too long."""

    def cut(_: int, frame: FrameType | None) -> None:
        if is_collecting(frame):  # there nobody would catch it
            signal.setitimer(signal.ITIMER_REAL, SECONDS / 100)
        else:
            raise CutOff

    before = signal.signal(signal.SIGALRM, cut)
    left, _ = signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        signal.signal(signal.SIGALRM, before)
