"""Programs that read captured state in ways drawn from a grammar; the plain function is the oracle.

A program is *root × container × derivations × use × change*: where the state hangs, what holds it,
what Python does with it on its way, what the staged function does with it, and how it changes
between two calls. A staged function may follow the change, refuse the program, or warn of it; a
number that is silently old is a fault of dlvm.
"""

from __future__ import annotations

import random
import sys
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import dlvm

X = np.linspace(0.5, 1.5, 6).reshape(2, 3)
FOREIGN = "foreign_models"
INSTALLED = '''
"""Classes as they stand in an installed package."""
import dataclasses


class Box:
    def __init__(self, c):
        self.c = c

    def state(self):
        return self.c

    @property
    def shown(self):
        return self.c


class Slotted:
    __slots__ = ("c",)

    def __init__(self, c):
        self.c = c


@dataclasses.dataclass
class Record:
    c: object
'''


def installed() -> types.ModuleType:
    """A module that counts as a part of an installed package."""
    if FOREIGN not in sys.modules:
        module = types.ModuleType(FOREIGN)
        module.__file__ = f"/usr/lib/python3/site-packages/{FOREIGN}.py"
        sys.modules[FOREIGN] = module
        exec(compile(INSTALLED, module.__file__, "exec"), module.__dict__)
    return sys.modules[FOREIGN]


OWN = """
import collections, copy, functools, itertools, operator, types
import numpy as np
import dlvm
from foreign_models import Box, Record, Slotted

class Mine:
    def __init__(self, c):
        self.c = c
    def state(self):
        return self.c

class Child(Mine):
    def state(self):
        return super().state()

Pair = collections.namedtuple("Pair", "a b c")
def spread(*args): return args
def named(**options): return options
def given(scale): return scale
"""

ROOTS = {  # how the container C is held, how the code reads it, how another one gets there
    "global": ("", "C", "global C; C = NEW"),
    "mine": ("H = Mine(C)", "H.c", "H.c = NEW"),
    "method": ("H = Mine(C)", "H.state()", "H.c = NEW"),
    "super": ("H = Child(C)", "H.state()", "H.c = NEW"),
    "installed": ("H = Box(C)", "H.c", "H.c = NEW"),
    "installed method": ("H = Box(C)", "H.state()", "H.c = NEW"),
    "installed property": ("H = Box(C)", "H.shown", "H.c = NEW"),
    "installed slots": ("H = Slotted(C)", "H.c", "H.c = NEW"),
    "installed record": ("H = Record(C)", "H.c", "global H; H = Record(NEW)"),
    "another object": ("H = Box(C)", "H.c", "global H; H = Box(NEW)"),
    "in a list": ("H = [Box(C)]", "H[0].c", "H[0] = Box(NEW)"),
    "in a table": ("H = {'m': Mine(C)}", "H['m'].c", "H['m'].c = NEW"),
    "namespace": ("H = types.SimpleNamespace(c=C)", "H.c", "H.c = NEW"),
    "getattr": ("H = Box(C)", "getattr(H, 'c')", "H.c = NEW"),
    "attrgetter": ("H = Box(C)", "operator.attrgetter('c')(H)", "H.c = NEW"),
    "vars": ("H = Mine(C)", "vars(H)['c']", "H.c = NEW"),
    "copied": ("H = Box(C)", "copy.copy(H).c", "H.c = NEW"),
    "deeply copied": ("H = Mine(C)", "copy.deepcopy(H).c", "H.c = NEW"),
}
CONTAINERS = {  # of E, a list of three elements; how one element is replaced
    "list": ("[*E]", "C[1] = OTHER"),
    "tuple": ("tuple(E)", None),
    "dict": ("dict(zip('abc', E))", "C['b'] = OTHER"),
    "deque": ("collections.deque(E)", "C[1] = OTHER"),
    "named tuple": ("Pair(*E)", None),
    "objects": ("OBJECTS(E)", "C[1] = OTHER"),
    "list of lists": ("[[E[0], E[1]], [E[2]]]", "C[0][1] = OTHER"),
    "dict subclass": ("collections.OrderedDict(zip('abc', E))", "C['b'] = OTHER"),
    "default dict": ("collections.defaultdict(int, zip('abc', E))", "C['b'] = OTHER"),
}
SEQUENCES = (  # ways from one sequence or table to another one
    "{}[:-1]", "{}[1:]", "{}[::2]", "{}[slice(0, 2)]", "[*{}]", "list({})", "tuple({})",
    "[e for e in {}]", "tuple(e for e in {})", "spread(*{})", "list(map(lambda e: e, {}))",
    "[p[0] for p in zip({0}, {0})]", "[e for _, e in enumerate({})]", "list(reversed({}))",
    "list(itertools.chain({}, ()))", "copy.copy({})", "copy.deepcopy({})", "sorted({}, key=id)[:3]",
    "list(filter(lambda e: True, {}))", "operator.itemgetter(0, 1)({})", "[{0}[0], {0}[-1]]",
    "list(itertools.islice({}, 2))", "functools.reduce(lambda a, e: a + [e], {}, [])",
    "[e for row in [{}] for e in row]", "{}[:2] + {}[2:]", "{}.copy()", "{} + {}[:0]",
)  # fmt: skip
TABLES = (
    "{{**{}}}", "dict({})", "dict(**{})", "named(**{})", "{}.copy()", "copy.copy({})",
    "copy.deepcopy({})", "{{k: v for k, v in {}.items()}}", "{{k: {0}[k] for k in {0}}}",
    "{} | {{}}", "dict({}.items())", "{{k: {0}.get(k) for k in 'abc'}}",
)  # fmt: skip
FLAT = {  # the elements of what is left in the end
    True: ("{}.values()", "list({}.values())", "[v for _, v in {}.items()]", "spread(*{}.values())",
           "[{0}[k] for k in {0}]", "[*{}.values()][:2]"),
    False: ("{}",),
}  # fmt: skip
THREE = "[np.full(3, v) for v in (1.5, 2.5, 3.5)]"
COUNTS = "[np.array([1, 2]), np.array([2]), np.array([3])]"
USES = {  # what the function does with an element, the elements, and another one
    "operand": ("y = y * e", THREE, "np.full(3, 9.5)"),
    "number": ("y = y * e", "[1.5, 2.5, 3.5]", "9.5"),
    "keyword": ("y = y + given(scale=e)", "[1.5, 2.5, 3.5]", "9.5"),
    "condition": ("y = y * 2 if e > 2 else y + 1", "[1.5, 2.5, 3.5]", "0.5"),
    "index": ("y = y + x[:, e:e + 1]", "[0, 1, 2]", "0"),
    "places": ("y = y + x[:, e]", "[[0, 1, 2], [2, 1, 0], [1, 1, 1]]", "[0, 0, 0]"),
    "axis": ("y = y + x.sum(axis=e, keepdims=True)", "[0, 1, 0]", "0"),
    "axis in an array": (
        "y = y + np.sum(x, int(e), keepdims=True)",
        "ARRAYS(0, 1, 0)",
        "np.array(0)",
    ),
    "size": ("y = y + dlvm.ones((e, 1)).sum()", "[1, 2, 3]", "7"),
    "count in an array": ("y = y + dlvm.ones(tuple(e)).sum()", COUNTS, "np.array([7])"),
    "computed": ("y = y * (e.sum() + np.linalg.norm(e))", THREE, "np.full(3, 9.5)"),
    "callee": ("y = e(y)", "[lambda y, k=k: y * k for k in (1.5, 2, 3)]", "lambda y: y * 9.5"),
    "layer": (
        "y = y * e[0] + e[1]",
        "[(np.full(3, v), v) for v in (1.5, 2, 3)]",
        "(np.ones(3), 9)",
    ),
}
IN_PLACE = {
    "operand": "EACH(E, lambda e: e.__setitem__(..., 9.5))",
    "computed": "EACH(E, lambda e: e.__setitem__(..., 9.5))",
    "layer": "EACH(E, lambda e: e[0].__setitem__(..., 9.5))",
    "places": "EACH(E, lambda e: e.__setitem__(0, 0))",
    "count in an array": "EACH(E, lambda e: e.__setitem__(0, 5))",
    "axis in an array": "EACH(E, lambda e: e.__setitem__((), 0))",
}


@dataclass(frozen=True)
class Case:
    """One program: its name, its source, and the state that it starts from."""

    name: str
    source: str


def _objects(parts: list[Any]) -> Any:
    out = np.empty(len(parts), object)
    for i, x in enumerate(parts):
        out[i] = x
    return out


def _each(parts: list[Any], change: Callable[[Any], None]) -> None:
    for part in parts:
        change(part)


def drawn(seed: int) -> Case:
    """The program of a seed."""
    dice = random.Random(seed)
    root, container, use = (dice.choice([*d]) for d in (ROOTS, CONTAINERS, USES))
    hold, read, rebind = ROOTS[root]
    make, replace = CONTAINERS[container]
    step, elements, other = USES[use]
    table, expression = "dict" in container, "c"
    ways: list[str] = []
    for _ in range(dice.choice((0, 1, 1, 2, 3))):
        ways.append(dice.choice(TABLES if table else SEQUENCES))
        expression = ways[-1].format(expression, expression)
    expression = dice.choice(FLAT[table]).format(expression)
    if container == "list of lists":
        expression = f"[e for row in {expression} for e in row]"
    changes = {"rebound": rebind}
    if replace:
        changes["element"] = replace
    if use in IN_PLACE:
        changes["in place"] = IN_PLACE[use]
    if container == "list":
        changes["appended"] = "C.append(OTHER)"
    change = dice.choice([*changes])
    source = f"""{OWN}
E = {elements}
OTHER = {other}
C = {make}
NEW = (lambda E: {make})([OTHER, OTHER, OTHER])
{hold}

def f(x):
    c = {read}
    y = x * 1.0
    for e in {expression}:
        {step}
    return y

def change():
    {changes[change]}
"""
    return Case(f"{seed}: {root}, {container}, {expression}, {use}, {change}", source)


def outcome(case: Case) -> str:
    """What a staged function made of a program: ``right``, ``refused``, ``told``, or what is old.

    A program that the plain function itself can't run is ``void``.
    """
    installed()
    space: dict[str, Any] = {
        "__name__": f"program_{case.name.partition(':')[0]}",
        "OBJECTS": _objects,
        "EACH": _each,
        "ARRAYS": lambda *xs: [np.array(x) for x in xs],
    }
    exec(compile(case.source, f"<{case.name}>", "exec"), space)
    plain = space["f"]
    try:
        before = np.asarray(plain(X))
    except Exception:  # the grammar makes programs that Python itself refuses
        return "void"
    staged = dlvm.function(plain)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            first = staged(X)
            space["change"]()
            after = np.asarray(plain(X))
            second = staged(X)
        except dlvm.UserError:
            return "refused"
    if not np.allclose(first, before):
        return f"wrong at first: {first} is not {before}"
    if second.shape == after.shape and np.allclose(second, after):
        return "right"
    if any(issubclass(w.category, dlvm.TraceWarning) for w in told):
        return "told"
    return f"silently old: {second.ravel()[:3]} is not {after.ravel()[:3]}"
