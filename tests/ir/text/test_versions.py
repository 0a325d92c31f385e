"""Texts of IR that an earlier dlvm wrote load for ever, and mean what they meant."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dlvm.ir import OPS, Array, parse
from dlvm.ir.text.printer import VERSION

from . import goldens

FOLDERS = sorted(Path(__file__).parent.glob("version_*"))
TEXTS = [p for folder in FOLDERS for p in sorted(folder.glob("*.dlvm"))]
TOLERANCE = {"float64": 1e-11, "float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2}


def test_every_version_up_to_the_one_that_is_printed_has_texts():
    assert [f.name for f in FOLDERS] == [f"version_{n}" for n in range(1, VERSION + 1)]


def stored(path: Path, kind: str) -> list[Array]:
    """The arguments, or the results, of a text."""
    with np.load(path.with_name("values.npz")) as values:
        names = [n for n in values.files if n.startswith(f"{path.stem}/{kind}/")]
        return [values[f"{path.stem}/{kind}/{i}"] for i in range(len(names))]


def test_every_operation_has_a_text():
    ours = [n for n, cls in OPS.items() if cls.__module__.startswith("dlvm.")]
    texts = {p.stem for p in TEXTS}
    assert len(ours) > 130
    assert [n for n in ours if n not in texts] == [], "python -m tests.ir.text.goldens adds them"
    for name in ours:
        assert f" {name} " in f"{goldens.path(name).read_text('utf8')} ".replace("\n", " "), name
    assert goldens.WHOLE.keys() <= texts


@pytest.mark.parametrize("path", TEXTS, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_a_text_means_what_it_meant(path: Path):
    module = parse(path.read_text("utf8")).verify()
    params = module.main.params
    given = [
        a.view(p.dtype.numpy) if a.dtype != p.dtype.numpy else a
        for a, p in zip(stored(path, "given"), params, strict=True)
    ]
    found, expected = goldens.run(module, given), stored(path, "found")
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        b = b.view(a.dtype) if a.dtype.name == "bfloat16" else b
        assert a.dtype == b.dtype and a.shape == b.shape
        error = TOLERANCE.get(a.dtype.name)
        if error is None:
            np.testing.assert_array_equal(a, b)
        else:
            wide = a.astype(np.float64), b.astype(np.float64)
            np.testing.assert_allclose(*wide, rtol=error, atol=error)
