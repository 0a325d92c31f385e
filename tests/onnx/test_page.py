"""The pages on ONNX and on deploying run as they stand, beside a file with their network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dlvm.onnx.table import TABLE
from tests.test_docs import ROOT, run_page

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from .test_load import NODE, drawn, made, value


@pytest.mark.parametrize("page", ["onnx", "deploy"])
def test_the_blocks_of_the_page_run_and_print_what_it_shows(
    page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    nodes = [
        NODE("Gemm", ["x", "w1", "b1"], ["h"]),
        NODE("Relu", ["h"], ["r"]),
        NODE("MatMul", ["r", "w2"], ["y"]),
    ]
    weights = dict(w1=drawn(12, 8), b1=np.zeros(8, np.float32), w2=drawn(8, 3))
    (tmp_path / "net.onnx").write_bytes(
        made(nodes, [value("x", "batch", 12)], [value("y", "batch", 3)], **weights)
    )
    monkeypatch.chdir(tmp_path)
    try:
        run_page(ROOT / "docs" / f"{page}.md", tmp_path, capsys)
    finally:
        TABLE.pop(("com.microsoft", "QuickGelu"), None)
