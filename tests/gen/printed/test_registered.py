"""A language of a user's own, which is that of the docs: a target through the registry."""

import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import UserError
from dlvm.gen.printed.languages import DIALECTS, register
from dlvm.targets import PRINTED, is_gpu, named, text_of
from tests.test_docs import ROOT, python_examples

X = np.ones((4, 40), "f4")


@pytest.fixture
def cuda_c(monkeypatch):
    """The language of the docs' example, for one test."""
    for table in (DIALECTS, PRINTED):
        for name in set(table) - {"opencl", "webgpu", "opengl", "metal"}:
            monkeypatch.delitem(table, name)
    found = [x for x, _ in python_examples(ROOT / "docs/printed-kernels.md") if "register(" in x]
    space = {"np": np, "dlvm": dlvm}
    code = found[0].partition("\n\n\n@dlvm")[0]
    exec(code, space)
    yield space["CUDA_C"]
    for table in (DIALECTS, PRINTED):
        del table["cuda-c"]


def test_languages_are_targets():
    assert PRINTED.keys() == DIALECTS.keys()


def test_a_language_is_a_target_once_it_is_registered(cuda_c):
    assert is_gpu("cuda-c:1") and text_of("cuda-c") == "cu" and named("cuda-c:1").device == 1
    f = dlvm.function(lambda x: dlvm.exp(x) / x.sum(axis=1, keepdims=True), target="cuda-c")
    text = f.compile(X).text("cu")
    assert "__shared__ float" in text and "__syncthreads();" in text and "fma(" in text
    with pytest.raises(dlvm.IRError, match=r"there is no stage 'ptx'.*loops, cu$"):
        f.compile(X).text("ptx")
    with pytest.raises(UserError, match=r"prints CUDA C, which no device here runs") as found:
        f(X)
    assert "take the text, or leave the target out" in str(found.value)
    with pytest.raises(UserError, match=r"CUDA C has no fptosi\.sat of f32") as found:
        dlvm.function(lambda x: x.astype("i1"), target="cuda-c").compile(X)
    assert 'x.astype("i1")' in str(found.value)


def test_a_name_is_taken_once(cuda_c):
    register(cuda_c, "cu")
    with pytest.raises(UserError, match="target='cuda-c' prints CUDA C already"):
        register(replace(cuda_c, head=""), "cu")
    with pytest.raises(UserError, match="target='opencl' prints OpenCL C already"):
        register(replace(cuda_c, name="opencl"), "cu")


@pytest.mark.usefixtures("cuda_c")
def test_nvcc_takes_the_text(tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("no text in CUDA C was compiled: there is no nvcc")
    f = dlvm.function(
        lambda x, i: (dlvm.sort(dlvm.tanh(x), axis=1), x[i], (x.sum(axis=0) * 7).astype("f2")),
        target="cuda-c",
    )
    file = tmp_path / "kernels.cu"
    file.write_text(f.compile(np.ones((3, 600), "f4"), np.arange(2)).text("cu"))
    run = ["nvcc", "--ptx", "-fmad=false", "-o", tmp_path / "kernels.ptx", file]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "kernels.ptx").read_text().count(".entry") > 3
