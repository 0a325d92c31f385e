"""The usual forms of training loops overwrite what they donate: nothing is copied after a step."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import optim
from tests.dsl.owned.kept_trees import CALLS, SHAPES, TREES, Layer, Pair, Slotted

START = "net = init()\n"
LOOPS = {
    "a script": START + "for x in batches:\n    net, v = step(net, x)\n    seen()",
    "a script without batches": START + "for _ in range(6):\n    net, v = step(net, X)\n    seen()",
    "a while": START + "i = 0\nwhile i < 6:\n    net, v = step(net, X)\n    seen()\n    i += 1",
    "epochs": START + "for _ in range(2):\n    for x in batches:\n        net, v = step(net, x)\n"
    "        seen()",
    "losses": START + "losses = []\nfor x in batches:\n    net, v = step(net, x)\n    seen()\n"
    "    losses.append(float(v))",
    "an index": START + "losses = [0] * 6\nfor i, x in enumerate(batches):\n"
    "    net, losses[i] = step(net, x)\n    seen()",
    "the result first": START
    + "for x in batches:\n    new, v = step(net, x)\n    net = new\n    seen()",
    "the whole result": START
    + "for x in batches:\n    out = step(net, x)\n    net, v = out\n    del out\n    seen()",
    "only the tree": START + "for x in batches:\n    net = alone(net, x)\n    seen()",
    "a call in the arguments": START
    + "it = iter(batches)\nfor _ in range(6):\n    net, v = step(net, next(it))\n    seen()",
    "an expression": START
    + "for x in batches:\n    net, v = step(net, x * 2 + x.sum())\n    seen()",
    "the whole result and no del": START
    + "for x in batches:\n    out = step(net, x)\n    net, v = out\n    seen()",
    "a start that is passed": "def train(net):\n    for x in batches:\n"
    "        net, v = step(net, x)\n"
    "        seen()\n    return net\ntrain(init())",
    "a start with a name": "def train(net):\n    for x in batches:\n        net, v = step(net, x)\n"
    "        seen()\n    return net\nfirst = init()\nlast = train(first)",
    "a with": START + "import contextlib\nfor x in batches:\n    with contextlib.nullcontext():\n"
    "        net, v = step(net, x)\n    seen()",
    "a try": START + "for x in batches:\n    try:\n        net, v = step(net, x)\n"
    "    except ValueError:\n        raise\n    seen()",
    "an if": START
    + "for x in batches:\n    if x.sum() > -1:\n        net, v = step(net, x)\n    seen()",
    "a lambda that reads it": "def main():\n    net = init()\n    total = lambda: leaf(net).sum()\n"
    "    for x in batches:\n        net, v = step(net, x)\n        total()\n        seen()\nmain()",
    "a step in the class": "class T:\n    def __init__(self):\n"
    "        self.net, self.step = init(), step\n"
    "    def one(self, x):\n        self.net, v = self.step(self.net, x)\n        return v\n"
    "t = T()\nfor x in batches:\n    t.one(x)\n    seen()",
    "a trainer by its name": "class T: pass\nt = T()\nt.net = init()\nfor x in batches:\n"
    "    t.net, t.v = step(t.net, x)\n    seen()",
    "attributes of attributes": "class T: pass\nt = T()\nt.a = T()\nt.a.net = init()\n"
    "for x in batches:\n    t.a.net, v = step(t.a.net, x)\n    seen()",
    "slots": "class T:\n    __slots__ = ('net',)\nt = T()\nt.net = init()\nfor x in batches:\n"
    "    t.net, v = step(t.net, x)\n    seen()",
    "the loss first": "class T: pass\nt = T()\nt.net, t.v = init(), 0\nfor x in batches:\n"
    "    t.v, t.net = turned(t.net, x)\n    seen()",
    "a staged method": "class T:\n    @staged\n    def one(self, net, x):\n"
    "        return dlvm.tree.map(lambda w: w + x, net)\nt = T()\nnet = init()\n"
    "for x in batches:\n    net = t.one(net, x)\n    seen(t.one)",
    "a staged method and an attribute": "class T:\n    @staged\n    def one(self, net, x):\n"
    "        return dlvm.tree.map(lambda w: w + x, net)\n    def go(self, x):\n"
    "        self.net = self.one(self.net, x)\nt = T()\nt.net = init()\n"
    "for x in batches:\n    t.go(x)\n    seen(t.one)",
    "a method of a dataclass": "@dataclass\nclass T:\n    rate: float\n    @staged\n"
    "    def one(self, net, x):\n        return dlvm.tree.map(lambda w: w + self.rate * x, net)\n"
    "t = T(0.5)\nnet = init()\nfor x in batches:\n    net = t.one(net, x)\n    seen(T.one)",
    "a compiled program": START
    + "net, v = step(net, X)\nfixed = step.compile(net, X)\nfirst = net\n"
    "del first\nfor _ in range(6):\n    net, v = fixed(net, X)\n    seen(fixed)",
    "a generator": "def train():\n    net = init()\n    for x in batches:\n"
    "        net, v = step(net, x)\n        seen()\n        yield v\nfor v in train(): pass",
    "a coroutine": "import asyncio\nasync def train():\n    net = init()\n    for x in batches:\n"
    "        net, v = step(net, x)\n        seen()\n        await asyncio.sleep(0)\n"
    "asyncio.run(train())",
    "a thread": "import threading\ndef train():\n    net = init()\n    for x in batches:\n"
    "        net, v = step(net, x)\n        seen()\n"
    "t = threading.Thread(target=train)\nt.start()\nt.join()",
    "a best copy": START + "best = None\nfor x in batches:\n    net, v = step(net, x)\n    seen()\n"
    "    best = dlvm.tree.map(np.copy, net)",
    "a checkpoint": START + "for x in batches:\n    net, v = step(net, x)\n    seen()\n"
    "    saved = [np.copy(w) for w in dlvm.tree.leaves(net)]",
    "an optimiser": "net = init()\nopt = adam.init(net)\nfor x in batches:\n"
    "    net, opt, v = trained(net, opt, x)\n    seen(trained)",
    "an optimiser in a function": "def main():\n    net = init()\n    opt = adam.init(net)\n"
    "    for x in batches:\n        net, opt, v = trained(net, opt, x)\n"
    "        seen(trained)\nmain()",
    "an optimiser by name": "def main():\n    net = init()\n    opt = adam.init(net)\n"
    "    for x in batches:\n        net, opt, v = trained(net=net, x=x, opt=opt)\n"
    "        seen(trained)\n"
    "main()",
    "an optimiser in attributes": "class T:\n    def go(self, x):\n"
    "        self.net, self.opt, v = trained(self.net, self.opt, x)\nt = T()\nt.net = init()\n"
    "t.opt = adam.init(t.net)\nfor x in batches:\n    t.go(x)\n    seen(trained)",
    "a state in a tuple": "state = (init(), 0.0)\nfor x in batches:\n"
    "    state, v = step(state, x)\n"
    "    seen()",
}


def names() -> list[str]:
    """The loops by name."""
    return [*LOOPS, *(f"{t} in a {s}, {c}" for t, s, c in products())]


def products() -> list[tuple[str, str, str]]:
    """A tree, where it is and how it is passed; each of them in turn."""
    trees, calls = [*TREES], [c for c in CALLS if c.startswith("step")]
    return [
        (trees[(i + 3 * j) % len(trees)], shape, calls[(i + j) % len(calls)])
        for i in range(3)
        for j, shape in enumerate(SHAPES)
    ]


def program(name: str) -> str:
    """The text of a loop."""
    if name in LOOPS:
        return LOOPS[name]
    tree, rest = name.split(" in a ")
    shape, call = rest.split(", ", 1)
    net, form = SHAPES[shape]
    body = f"{net}, v = {call.replace('NET', net)}\nseen()"
    made = TREES[tree][0]
    parts = {f"body{i or ''}": textwrap.indent(body, "    " * (i or 1)) for i in (0, 2, 3)}
    return form.format(start=f"{net} = {made}", tree=made, end="pass", **parts)


@pytest.mark.parametrize("name", names())
def test_a_usual_loop_copies_nothing_after_its_first_step(name: str):
    counts: list[int] = []

    def seen(of: Any = None) -> None:
        counts.append(made_copies(of or space["step"]))

    x = np.float64(0.5)
    space = names_of_programs() | {"seen": seen, "x": x, "X": x, "n": 6}
    exec(compile(program(name), "<loop>", "exec"), space)
    assert len(counts) >= 6
    assert counts == [counts[0]] * len(counts), "copies after the first step"


def made_copies(staged: Any) -> int:
    """Number of calls of a function, or of a program, that copied."""
    made = staged.programs._made if hasattr(staged, "programs") else [staged]
    return sum(program.copies.calls for program in made)


def names_of_programs() -> dict[str, Any]:
    """What the programs refer to."""
    adam = optim.adam(0.1)

    def trained(net: Any, opt: Any, x: Any) -> Any:
        v, slopes = dlvm.value_and_grad(lambda n: dlvm.tree.leaves(n)[0].sum() * x)(net)
        updates, opt = adam.update(slopes, opt, net)
        return optim.apply(net, updates), opt, v

    def stepped(net: Any, x: Any) -> Any:
        return dlvm.tree.map(lambda w: w * 0.5 + x, net), x * 2

    def turned(net: Any, x: Any) -> Any:
        return tuple(reversed(stepped(net, x)))

    def alone(net: Any, x: Any) -> Any:
        return stepped(net, x)[0]

    def a(n: int) -> Any:
        return np.arange(n * 2.0).reshape(n, 2) + 1

    staged = dlvm.function(donate="net")
    return {
        "__name__": __name__,
        "step": staged(stepped),
        "turned": staged(turned),
        "alone": staged(alone),
        "trained": dlvm.function(trained, donate=("net", "opt")),
        "staged": staged,
        "adam": adam,
        "batches": [np.float64(i) for i in range(6)],
        "init": lambda: {"w": a(2), "layers": [Layer(a(3), a(1))]},
        "leaf": lambda net: net["w"],
        "a": a,
        **{"dlvm": dlvm, "np": np, "Layer": Layer, "Slotted": Slotted, "Pair": Pair},
        **{"dataclass": dataclass, "OrderedDict": __import__("collections").OrderedDict},
    }


def test_what_nobody_has_is_overwritten():
    space = names_of_programs()
    loop = "net = init()\nfor x in batches:\n    new = alone(alone(net, x), x)\n    net = new"
    exec(compile(loop, "<loop>", "exec"), space)
    assert made_copies(space["alone"]) == 6  # of what the inner call gets: the outer one may fail


def test_cells_of_a_notebook_share_a_namespace():
    space = names_of_programs()
    cells = ["net = init()", *["net, v = step(net, 0.5)"] * 6]
    for cell in cells:
        exec(compile(cell, "<cell>", "exec"), space)
    assert made_copies(space["step"]) == 0
