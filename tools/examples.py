"""An example of each public name, and what it gave when it ran.

It is that of ``examples.txt`` where there is one, else the docstring's, else a call with a value
for each argument that has no default.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np

GIVEN = """\
import dataclasses

import numpy as np

import dlvm

x, y = np.array([0.5, -0.25, 0.75]), np.array([2.0, 1.0, 3.0])
a, i = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1, 2, 2])
key, image = dlvm.random.key(0), np.ones((1, 8, 8, 3), "f")


def f(x):
    return (x * x).sum()
"""
"""What examples begin with."""
VALUES = {
    "x": "x", "y": "y", "z": "x", "a": "x", "b": "y", "v": "y", "m": "a", "f": "f", "n": "3",
    "key": "key",
    "predictions": "x", "targets": "y", "shape": "(2, 3)", "dtype": '"f32"', "arrays": "x, y",
    "tree": '{"w": x, "n": 2}', "learning_rate": "0.1",
}  # fmt: skip
OF_MATRICES = {"x": "a", "a": "a", "b": "[1.0, 2.0]"}
UPDATE = "tx = {}; tx.update(y, tx.init(x), x)[0]"
AFTER = {"nn": "{}(x)", "nn.initializers": "{}(key, (2, 2))", "nn.metrics": "{}", "optim": UPDATE}
"""How a call goes on whose result is a layer, an initialiser, a metric or an optimiser."""


def table() -> dict[str, str]:
    """The examples of ``examples.txt`` by name."""
    lines = Path(__file__).with_suffix(".txt").read_text("utf8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line[0] != "#")


TABLE = table()
WITHOUT = {
    "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values",  # only refuse
    "gpu.use", "onnx.operation",  # a GPU, operations of a user's own
    "testing.assert_complete", "testing.assert_law",
    "onnx.Call", "onnx.Model", "onnx.Results", "onnx.Value", "nn.multi_head_attention",
    "testing.Fault", "testing.Identity", "testing.Kink",  # parts of a report
}  # fmt: skip
"""Names that have no example; errors have none either."""
NEEDS = {"stablehlo.load": "jax"}
"""The package that an example needs beside those of the tests."""


def is_error(of: Any) -> bool:
    """Whether a name is a kind of error."""
    return inspect.isclass(of) and issubclass(of, Exception)


def statements(name: str, of: Any) -> list[str]:
    """The example of a name, empty where there is none."""
    doc = inspect.getdoc(of) or ""
    if name in WITHOUT or is_error(of):
        return []
    if name in TABLE:
        return TABLE[name].replace("\\n", "\n").split("; ")
    if ">>> " in doc:
        return [line[4:] for line in doc.splitlines() if line.startswith(">>> ")]
    return list(filter(None, called(name, of).split("; "))) if callable(of) else []


def called(name: str, of: Any) -> str:
    """A call with a value for each argument that has no default; "" where one has no value."""
    module, _, last = name.rpartition(".")
    values = VALUES | (OF_MATRICES if module == "linalg" else {})
    try:
        given = inspect.signature(of).parameters.values()
    except ValueError:
        return ""
    needed = [p.name for p in given if (p.default is p.empty and p.kind < 2) or p.kind == 2]
    if any(n not in values for n in needed):
        return ""
    call = f"dlvm.{name}({', '.join(values[n] for n in needed)})"
    made = module == "nn.initializers" or module == "optim" or last[0].isupper()
    return AFTER.get(module, "{}").format(call) if made else call


def session(name: str, of: Any) -> str:
    """The example as one types it, empty where there is none."""
    return "".join(f">>> {s}\n".replace("\n", "\n... ")[:-4] for s in statements(name, of))


def result(name: str, of: Any) -> str:
    """What the example prints, and the value that it ends with; it runs now."""
    lines, out = statements(name, of), io.StringIO()
    space: dict[str, Any] = {}
    exec(GIVEN, space)
    digits = np.printoptions(precision=4, suppress=True)
    with elsewhere(), contextlib.redirect_stdout(out), digits:
        for line in lines[:-1]:
            exec(line, space)
        value = eval(lines[-1], space)
        if value is not None:
            print(repr(value))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().rstrip().splitlines())


@contextlib.contextmanager
def elsewhere() -> Generator[None]:
    """A folder for the files that examples write."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
