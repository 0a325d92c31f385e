"""Programs that train and keep a donated tree, a part of it or a leaf in some way of Python's.

    SUITE_SEED=7 python -m tests.dsl.owned.kept_trees 1000

A program runs some steps from a script, a function, a method, a generator or a closure, and keeps
something of the tree before one of them. What is kept must have the numbers that it had then, and
the training must end where the plain function ends.
"""

from __future__ import annotations

import copy
import functools
import itertools
import random
import sys
import textwrap
import types
import warnings
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import dlvm
from dlvm.dsl.trace.trees import flatten
from tests.running import seed


@dataclass
class Layer:
    """A dataclass of arrays."""

    w: Any
    b: Any


@dataclass(slots=True)
class Slotted:
    """A dataclass without a dict."""

    w: Any
    b: Any


class Pair(NamedTuple):
    """A named tuple of arrays."""

    w: Any
    b: Any


TREES: dict[str, tuple[str, str, str]] = {
    "dict": ("{'w': a(2), 'b': a(3)}", "NET['w']", "NET"),
    "list": ("[a(2), a(3)]", "NET[0]", "NET"),
    "tuple": ("(a(2), a(3))", "NET[1]", "NET"),
    "named": ("Pair(a(2), a(3))", "NET.w", "NET"),
    "dataclass": ("Layer(a(2), a(3))", "NET.b", "NET"),
    "slots": ("Slotted(a(2), a(3))", "NET.b", "NET"),
    "ordered": ("OrderedDict(w=a(2), b=a(3))", "NET['w']", "NET"),
    "nested": (
        "{'layers': [Layer(a(2), a(3)), Layer(a(3), a(1))], 'end': (a(2),)}",
        "NET['layers'][1].w",
        "NET['layers']",
    ),
    "deep": ("[{'x': Layer(Pair(a(2), a(2)), [a(3)])}]", "NET[0]['x'].w.b", "NET[0]['x'].w"),
    "leaf": ("a(4)", "NET", "NET"),
}
"""A tree, one of its leaves, and a part of it."""

KEPT: dict[str, tuple[str, str]] = {
    "a name": ("best = IT", "best"),
    "an element": ("box.history.append(IT)", "box.history[0]"),
    "a value": ("box.table['best'] = IT", "box.table['best']"),
    "an attribute": ("box.best = IT", "box.best"),
    "a tuple": ("pair = (1, IT)", "pair[1]"),
    "a closure": ("get = (lambda it: lambda: it)(IT)", "get()"),
    "a default": ("get = (lambda it: eval('lambda it=it: it', {'it': it}))(IT)", "get()"),
    "a generator": ("held = holding(IT); next(held)", "next(held)"),
    "a partial": ("held = functools.partial(same, IT)", "held()"),
    "arguments": ("held = types.SimpleNamespace(args=(IT,))", "held.args[0]"),
    "a method": ("held = Holder(IT).get", "held()"),
    "an exception": ("held = raised(IT)", "held.args[0]"),
    "a traceback": ("held = raised(IT)", "held.__traceback__.tb_next.tb_frame.f_locals['it']"),
    "an iterator": ("held = itertools.repeat(IT)", "next(held)"),
    "a queue": ("held = deque([IT])", "held[0]"),
    "a shallow copy": ("best = copy.copy(IT) if not isinstance(IT, np.ndarray) else IT", "best"),
    "a list of leaves": ("best = leaves(IT)", "best"),
    "a cell": ("get = celled(IT)", "get.__closure__[0].cell_contents"),
    "a star": ("held = collected(IT)", "held[0]"),
    "a loop": ("for best in [IT]: pass", "best"),
    "a walrus": ("(best := IT)", "best"),
    "an object array": ("held = boxed(IT)", "held[()]"),
    "a global": ("setattr(sys.modules['__main__'], '_kept', IT)", "sys.modules['__main__']._kept"),
}
"""What keeps something, and what gives it back."""
OF_LEAVES: dict[str, tuple[str, str]] = {
    "a view": ("best = IT[0:1]", "best"),
    "an element's view": ("best = IT[..., None]", "best"),
    "a transpose": ("best = IT.T", "best"),
    "a reshape": ("best = IT.reshape(1, -1)", "best"),
    "a memoryview": ("best = memoryview(IT)", "np.asarray(best)"),
    "a flat iterator": ("best = IT.flat", "np.asarray(best)"),
    "a frombuffer": ("best = np.frombuffer(IT)", "best"),
    "a view of a view": ("best = IT[1:][:1]", "best"),
    "a capsule": ("best = np.from_dlpack(IT)", "best"),
}
OF_OBJECTS: dict[str, tuple[str, str]] = {"vars": ("best = vars(IT)", "best")}

CALLS = ("step(NET, x)", "step(net=NET, x=x)", "step(NET, x=x)", "step(NET, *(x,))", "also(NET, x)")
ASSIGNED = {
    "pair": "NET, v = CALL",
    "later": "new, v = CALL\nNET = new",
    "other": "new, v = CALL",
    "chain": "both = NET, v = CALL",
}
SHAPES: dict[str, tuple[str, str]] = {
    "script": ("net", "{start}\nfor i in range(n):\n{body}\n{end}"),
    "function": (
        "net",
        "def main():\n    {start}\n    for i in range(n):\n{body2}\n    {end}\nmain()",
    ),
    "global": (
        "net",
        "def main():\n    global net\n    for i in range(n):\n{body2}\n    {end}\n{start}\nmain()",
    ),
    "cell": (
        "net",
        "def main():\n    {start}\n    def one(i):\n        nonlocal net\n{body2}\n        {end}\n"
        "    for i in range(n):\n        one(i)\nmain()",
    ),
    "argument": ("net", "def main(net):\n    for i in range(n):\n{body2}\n    {end}\nmain({tree})"),
    "attribute": (
        "self.net",
        "class Trainer:\n    def main(self):\n        for i in range(n):\n{body3}\n        {end}\n"
        "t = Trainer()\nt.net = {tree}\nt.main()",
    ),
    "element": ("state['net']", "state = {{'net': {tree}}}\nfor i in range(n):\n{body}\n{end}"),
    "generator": (
        "net",
        "def main():\n    {start}\n    for i in range(n):\n{body2}\n        yield v\n    {end}\n"
        "for _ in main(): pass",
    ),
}
"""Where the tree is, and the program."""


class Holder:
    """An object whose method gives what it holds."""

    def __init__(self, it: Any) -> None:
        self.it = it

    def get(self) -> Any:
        return self.it


def holding(it: Any) -> Iterator[Any]:
    yield None
    yield it


def raised(it: Any) -> Exception:
    try:
        fail(it)
    except ValueError as error:
        return error
    raise AssertionError


def fail(it: Any) -> None:
    raise ValueError(it)


def celled(it: Any) -> Any:
    return lambda: it


def collected(*xs: Any) -> Any:
    return xs


def boxed(it: Any) -> Any:
    found = np.empty((), object)
    found[()] = it
    return found


def leaves(tree: Any) -> list[Any]:
    return flatten(tree)[0]


def stepped(net: Any, x: Any) -> Any:
    """A step: every leaf changes."""
    return dlvm.tree.map(lambda w: w * 0.5 + x, net), x


@dataclass(frozen=True)
class Program:
    """What is drawn: a tree, where it is, how it is passed and assigned, what is kept and when."""

    tree: str
    shape: str
    call: str
    assigned: str
    kept: str
    part: str
    at: int

    def text(self) -> str:
        """The program; it ends with ``check(what is kept, the copy of it, the tree)``."""
        made, leaf, part = TREES[self.tree]
        net, form = SHAPES[self.shape]
        keep, get = {**KEPT, **OF_LEAVES, **OF_OBJECTS}[self.kept]
        it = {"whole": "NET", "part": part, "leaf": leaf}[self.part]
        assign = ASSIGNED[self.assigned].replace("CALL", self.call)
        body = f"if i == {self.at}:\n    {keep}\n    was = copied({get})\n"
        if self.kept in ("a generator",):
            body = f"if i == {self.at}:\n    was = copied(IT)\n    {keep}\n"
        body = (body + assign).replace("IT", it).replace("NET", net)
        end = f"if i == n - 1: check({get}, was, {net})".replace("IT", it)
        if self.shape == "cell":
            body = "global was, best, held, get, pair\n" + body

        def indented(by: int) -> str:
            return textwrap.indent(body, "    " * by)

        return form.format(
            start=f"{net} = {made}",
            tree=made,
            body=indented(1),
            body2=indented(2),
            body3=indented(3),
            end=end,
        )


def drawn(dice: random.Random) -> Program:
    """A program."""
    tree = dice.choice([*TREES])
    part = dice.choice(["whole", "part", "leaf"])
    ways = [*KEPT]
    if part == "leaf" or tree == "leaf":
        ways = ways * 1 + [*OF_LEAVES] * 3
    if tree == "dataclass" and part != "leaf":
        ways += [*OF_OBJECTS] * 8
    return Program(
        tree,
        dice.choice([*SHAPES]),
        dice.choice(CALLS),
        dice.choice([*ASSIGNED]),
        dice.choice(ways),
        part,
        dice.randrange(0, 5),
    )


def copied(x: Any) -> Any:
    """A deep copy of numbers."""
    return [np.array(leaf) for leaf in flatten(x)[0]]


def verdict(program: Program) -> str:
    """Whether what was kept has its numbers: ``kept``, ``overwritten`` or ``wrong``."""
    ends: list[list[Any]] = []
    for staged in (False, True):
        step: Any = dlvm.function(stepped, donate="net") if staged else stepped
        found: list[str] = []

        def check(now: Any, was: list[Any], net: Any, found: list[str] = found) -> None:
            same = all(map(np.array_equal, copied(now), was))
            found.append("kept" if same else "overwritten")
            ends.append(copied(net))

        space: dict[str, Any] = {
            **globals(),
            "__name__": "user",
            "a": lambda n: np.arange(n * 2.0).reshape(n, 2) + 1,
            "x": np.float64(0.25) if not staged else 0.25,
            "n": 6,
            "step": step,
            "also": step,
            "check": check,
            "box": types.SimpleNamespace(history=[], table={}),
            "same": lambda it: it,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(program.text(), "<drawn>", "exec"), space)
        if not staged and found != ["kept"]:
            return "not a program"
    same = all(map(np.allclose, *ends))
    return found[0] if found and same else "wrong"


def verdicts(count: int, of: int, show: bool = False) -> Counter[str]:
    """The verdicts on some programs."""
    dice = random.Random(of)
    counts: Counter[str] = Counter()
    while sum(counts.values()) - counts["not a program"] < count:
        program = drawn(dice)
        said = verdict(program)
        counts[said] += 1
        if show and said not in ("kept", "not a program"):
            print(f"{said}: {program}\n{program.text()}", flush=True)
    return counts


_USED = (copy, functools, itertools, sys, OrderedDict, deque)
"""Names that the texts of programs use."""

if __name__ == "__main__":
    asked = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    print(f"seed {seed()}:", dict(verdicts(asked, seed(), show=True)))
