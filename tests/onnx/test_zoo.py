"""Real models of wheels that are at hand beside ONNX Runtime: ``make zoo`` fetches them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dlvm
from benchmarks.zoo import drawn, losses, models, sizes_of

FOLDER = Path(__file__).parents[2] / "zoo"
MODELS = dict(models(FOLDER)) if FOLDER.is_dir() else {}
REFUSED = {"common_old": "DynamicQuantizeLSTM"}
"""Models with an operation that dlvm does not have, and which one."""


@pytest.mark.skipif(not MODELS, reason="no real models are here: make zoo fetches some")
@pytest.mark.parametrize("name", sorted(MODELS) or ["none"])
def test_a_real_model_has_the_numbers_of_its_runtime_in_one_program(name: str):
    runtime = pytest.importorskip("onnxruntime")
    if name in REFUSED:
        with pytest.raises(dlvm.UserError, match=REFUSED[name]):
            dlvm.onnx.load(MODELS[name])
        return
    session = runtime.InferenceSession(MODELS[name], providers=["CPUExecutionProvider"])
    model = dlvm.onnx.load(MODELS[name])
    for sizes in sizes_of(name):
        given = drawn(session, sizes)
        for a, b in zip(model(**given), session.run(None, given), strict=True):
            np.testing.assert_allclose(a, b, atol=5e-3 * np.abs(b).max(), rtol=0)
    assert len(model.programs) == 1
    assert np.all(np.isfinite(losses(model, drawn(session, sizes_of(name)[0]))))
