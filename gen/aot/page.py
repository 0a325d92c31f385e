"""Makes one web page of a module: it holds the code, the weights, the loader and its controls.

The page needs no server and no network, and its own policy forbids both: it works from a disk.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from dlvm.base.errors import ArgumentError, DTypeError
from dlvm.ir import DTYPES, Array

from .writing import html_text, json_in_html


def page(
    module_bytes: bytes,
    description: Mapping[str, Any],
    weights: bytes = b"",
    *,
    title: str = "",
    labels: Sequence[str] = (),
    ink: float = 1.0,
    values: Mapping[str, Array] | None = None,
    gpu: Mapping[str, Any] | None = None,
) -> str:
    """A page that runs the function of a module on numbers that are typed or drawn.

    An argument that is a square image of 8 x 8 elements or more is drawn with the pointer:
    background is 0, a stroke is ``ink``. Floating-point scores of up to 100 classes are bars with
    ``labels``, or with their numbers. ``values`` are what arguments and state start from, by name;
    the others start from zeros. A function with state is called by a button, others at each change.
    With ``gpu``, the table of the function for WebGPU, a page runs it by that where it can.
    """
    _refuse_halves(description)
    data = {
        "description": description,
        "wasm": _base64(module_bytes),
        "weights": _base64(weights),
        "labels": list(labels),
        "ink": ink,
        "values": {name: _start(description, name, v) for name, v in (values or {}).items()},
        "gpu": gpu,
    }
    parts = {
        "title": html_text(title or str(description["name"])),
        "data": json_in_html(data),
        "loader": _packaged("loader.js") + _either(gpu),
        "script": _packaged("page.js"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _packaged("page.html"))


def _refuse_halves(description: Mapping[str, Any]) -> None:
    """No browser has elements of bf16 and not each those of f16: a page would show their bits."""
    for array in (*description["arguments"], *description["results"]):
        if array["dtype"] in ("f16", "bf16") and array.get("role") != "weight":
            raise DTypeError(
                f"a page shows numbers of 32 and 64 bits, and {array['name']} is of type "
                f"{array['dtype']}; convert it with .astype('f32') in the function"
            )


def _packaged(name: str) -> str:
    """A text file that lies beside this one, in a wheel too."""
    return (files("dlvm.gen.aot") / name).read_text("utf8")


def _either(gpu: Mapping[str, Any] | None) -> str:
    """What runs a function by either, without its import, as one script has all."""
    text = "" if gpu is None else _packaged("webgpu.js")
    return re.sub(r'(?m)^import .* from "./loader.js";$', "", text)


def _base64(content: bytes) -> str:
    return b64encode(content).decode("ascii")


def _start(description: Mapping[str, Any], name: str, value: Array) -> str:
    """The bytes of an array that an argument starts from."""
    known = {a["name"]: a for a in description["arguments"] if a["role"] != "weight"}
    if name not in known:
        raise ArgumentError(
            f"page got values for {name!r}; {description['name']} takes {', '.join(known)}"
        )
    dtype, shape = DTYPES[known[name]["dtype"]], tuple(known[name]["shape"])
    if value.dtype != dtype.numpy or value.shape != shape:
        raise ArgumentError(
            f"expected values of {name} of type {dtype.numpy} and shape {shape}, found "
            f"{value.dtype} and {value.shape}; give an array of that type and shape"
        )
    return _base64(np.ascontiguousarray(value).tobytes())
