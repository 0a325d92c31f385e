"""Small files that ask for endless work or hold no sense end in clear errors at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dlvm

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_extent import X, call, calling, doubling, joined
from .test_load import NODE, WHOLE, helper, made, onnx, value

LONG = 100_000
"""Characters of a name."""


def windowed(op: str, size: int) -> Any:
    data = made([NODE(op, ["n"], ["y"])], [], [value("y", "k")], n=np.array(size))
    return dlvm.onnx.load(data)()


def sine(**changed: str) -> bytes:
    """The sine of an input, in which some names are others."""
    name = {"op": "Sin", "x": "x", "read": "x", "size": "n", **changed}
    nodes = [NODE(name["op"], [name["read"]], ["y"])]
    return made(nodes, [value(name["x"], name["size"])], [value("y", name["size"])])


def repeated(trips: int, rows: bool = False, ends: bool = False, known: bool = False) -> Any:
    """A loop whose condition is always true, unless it ``ends`` when a number is large."""
    steps = [NODE("Add", ["s", "s"], ["t"]), NODE("Identity", ["t"], ["o"])]
    steps += [NODE("ReduceMax", ["t"], ["m"], keepdims=0), NODE("Less", ["m", "end"], ["less"])]
    steps.append(NODE("Identity", ["less" if ends else "c"], ["d"]))
    flags = [value(n, kind=onnx.TensorProto.BOOL) for n in "cd"]
    results = [flags[1], value("t", 4), *([value("o", 4)] if rows else [])]
    start = [value("i", kind=WHOLE), flags[0], value("s", 4)]
    inner = helper.make_graph(steps, "step", start, results)
    names = ["y", "z"] if rows else ["y"]
    nodes = [NODE("Loop", ["n", "", "x"], names, body=inner)]
    outputs = [helper.make_tensor_value_info(n, 1, None) for n in names]
    arrays = dict(n=np.array(trips), end=np.float32(100)) | (dict(x=X) if known else {})
    m = dlvm.onnx.load(made(nodes, [] if known else [value("x", 4)], outputs, **arrays))
    return m() if known else m(X)


CASES: dict[str, tuple[str, Callable[[], Any]]] = {
    "functions that call the last one twice": (
        "at most 100,000 nodes",
        lambda: dlvm.onnx.load(doubling(41)),
    ),
    "a function that calls itself": (
        "'A' calls itself",
        lambda: dlvm.onnx.load(calling({"A": [call("A", "x", "y")]}, "A")),
    ),
    "an array joined to itself": (
        "Concat.*bytes of constants",
        lambda: dlvm.onnx.load(joined(40, x0=X))(),
    ),
    "a window of 2^45 elements": (
        "HannWindow.*bytes of constants",
        lambda: windowed("HannWindow", 2**45),
    ),
    "a range of 2^45 elements": (
        "Range.*bytes of constants",
        lambda: dlvm.onnx.load(
            made(
                [NODE("Range", ["a", "b", "c"], ["y"])],
                [],
                [value("y", "n", kind=WHOLE)],
                **{n: np.array(k) for n, k in zip("abc", (0, 2**45, 1), strict=True)},
            )
        )(),
    ),
    "a file of NULs": ("a field of a number from 1 on", lambda: dlvm.onnx.load(bytes(50_000_000))),
    "a path with a NUL": ("a NUL", lambda: dlvm.onnx.load("net\0.onnx")),
    "an operation with a NUL": (
        "no operation",
        lambda: dlvm.onnx.load(sine(op="Si\0n")),
    ),
    "an operation with a long name": (
        r"no operation S{200}\.\.\.",
        lambda: dlvm.onnx.load(sine(op="S" * LONG)),
    ),
    "a value with a long name that nothing makes": (
        r"reads 'z{200}\.\.\.'",
        lambda: dlvm.onnx.load(sine(read="z" * LONG))(X),
    ),
    "an input with a long name that is not given": (
        r"needs the input 'x{200}\.\.\.'",
        lambda: dlvm.onnx.load(sine(x="x" * LONG, read="x" * LONG))(),
    ),
    "an input with another long name": (
        r"no input 'y{200}\.\.\.'",
        lambda: dlvm.onnx.load(sine(x="x" * LONG, read="x" * LONG))(**{"y" * LONG: X}),
    ),
    "a loop of 2^63 - 1 trips": ("always true", lambda: repeated(2**63 - 1)),
    "a loop of 2^63 - 1 trips over constants": (
        "always true",
        lambda: repeated(2**63 - 1, known=True),
    ),
    "a loop that stacks 2^63 - 1 results": (
        "Loop.*bytes of constants",
        lambda: repeated(2**63 - 1, rows=True),
    ),
}
"""What a file asks for, the words of the error, and what is done with the file."""


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_file_ends_in_a_clear_error_soon(name: str):
    said, run = CASES[name]
    with pytest.raises(dlvm.UserError, match=f"(?s){said}") as caught:
        run()
    assert len(str(caught.value)) < 4000


def test_a_loop_of_any_number_of_trips_ends_where_its_condition_says():
    """Exporters write ``while`` as a loop of 2^63 - 1 trips."""
    np.testing.assert_allclose(repeated(2**63 - 1, ends=True)[0], X * 128)


def test_long_names_and_nuls_in_names_run():
    for name in ("n" * LONG, "a\0b"):
        data = sine(x=name, read=name, size=name)
        np.testing.assert_allclose(dlvm.onnx.load(data)(X)[0], np.sin(X), rtol=1e-6)
        assert len(str(dlvm.onnx.load(sine(size=name)))) < 200


def test_a_window_has_the_values_of_its_formula():
    found = windowed("HammingWindow", 5)[0]
    wanted = 25 / 46 - 21 / 46 * np.cos(2 * np.pi * np.arange(5) / 5)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
