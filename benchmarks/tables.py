"""The time to find what a function captures, where it reaches many functions through one variable.

python -m benchmarks.tables [--operations 150] [--nodes 100] [--rounds 5] [--json tables.json]

The program interprets a graph, as importers of models do: each node names an operation of a table
and has a dict of attributes. Prints, in milliseconds, the walk over the code that precedes a trace
(the first time in a process, and the best of the later ones), and a first call as a whole.
"""

from __future__ import annotations

import argparse
import json
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import dlvm
from dlvm.dsl.state.captures import Captures

HEAD = """
import math
import numpy as np
import dlvm

OPS = {}

class Refused(Exception):
    pass

class Node:
    def __init__(self, kind, inputs, output, attributes):
        self.kind, self.inputs, self.output, self.attributes = kind, inputs, output, attributes

def shape(x):
    return tuple(x.shape)

def known(x, what="value"):
    if isinstance(x, (np.ndarray, np.generic, int, float)):
        return np.asarray(x)
    raise Refused(f"{what} that is not known")

def ints(x, what="size"):
    return [int(i) for i in known(x, what).reshape(-1)]

def axes_of(node, x):
    axes = node.attributes.get("axes")
    if not axes:
        return tuple(range(len(shape(x))))
    return tuple(k % len(shape(x)) for k in axes)

def put(name):
    def add(f):
        OPS[name] = f
        return f
    return add

def run(graph, x):
    env = {"x": x}
    for node in graph:
        env[node.output] = OPS[node.kind](node, env)
    return env[graph[-1].output]
"""
BODIES = (
    """
    return dlvm.tanh(env[node.inputs[0]]) * {n}.0
""",
    """
    x, a = env[node.inputs[0]], node.attributes
    alpha, beta = a.get("alpha", 0.5), a.get("beta", {n}.0)
    return dlvm.where(x < alpha, x + beta, dlvm.where(x > 0, x * alpha, x))
""",
    """
    x, axes = env[node.inputs[0]], axes_of(node, env[node.inputs[0]])
    return x - dlvm.sum(x, axis=axes, keepdims=bool(node.attributes.get("keepdims", 1))) / {n}
""",
    """
    x, k = env[node.inputs[0]], node.attributes.get("axis", 0) % len(shape(env[node.inputs[0]]))
    outer, inner = math.prod(shape(x)[:k]), math.prod(shape(x)[k:])
    return dlvm.reshape(dlvm.nn.softmax(dlvm.reshape(x, (outer, inner)), axis=-1), shape(x))
""",
    """
    x, parts = env[node.inputs[0]], []
    for low, high in zip(node.attributes.get("starts", [0]), node.attributes.get("ends", [1])):
        index = [slice(None)] * len(shape(x))
        low = low + shape(x)[0] if low < 0 else low
        index[0] = slice(min(max(low, 0), {n}), high)
        parts.append(x[tuple(index)])
    return parts[0] if len(parts) == 1 else dlvm.concat(parts, axis=0)
""",
)
"""What an operation does, written as importers write it: attributes with defaults, and helpers."""


def program(operations: int, nodes: int) -> Callable[[Any], Any]:
    """A function that runs a graph; a module of its own, so that its code is new to the process."""
    text = HEAD + "".join(
        f'\n@put("op{n}")\ndef op{n}(node, env):{BODIES[n % len(BODIES)].format(n=n)}'
        for n in range(operations)
    )
    module = types.ModuleType("table_of_operations")
    exec(compile(text, "table_of_operations.py", "exec"), module.__dict__)
    space = module.__dict__
    attributes = {"alpha": 0.1, "axes": [0, 1], "axis": 1, "starts": [0, 1], "ends": [4, 5]}
    graph: list[Any] = []
    for n in range(nodes):
        inputs = [graph[-1].output if graph else "x"]
        graph.append(space["Node"](f"op{n % operations}", inputs, f"y{n}", dict(attributes)))
    run = space["run"]
    return lambda x: run(graph, x)


def seconds(run: Callable[[], Any]) -> float:
    """The time that a function takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def measure(operations: int, nodes: int, rounds: int) -> dict[str, float]:
    """The time of the walk and of the first call."""
    f = program(operations, nodes)
    walks = [seconds(lambda: Captures([f])) for _ in range(rounds + 1)]
    g = dlvm.function(program(operations, nodes))
    call = seconds(lambda: g(np.ones((8, 8))))
    return {"first walk": walks[0], "later walk": min(walks[1:]), "first call": call}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--operations", type=int, default=150)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.operations, options.nodes, options.rounds)
    for name, time_ in found.items():
        print(f"{name:12}{time_ * 1e3:10.1f} ms")
    if options.json:
        options.json.write_text(json.dumps(vars(options) | found, default=str, indent=1) + "\n")


if __name__ == "__main__":
    main()
