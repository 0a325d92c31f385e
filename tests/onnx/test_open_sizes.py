"""Open sizes of models: one program where the model allows it, checked in calls, and few kept."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.onnx import programs as kept

pytest.importorskip("onnx", reason="pip install 'dlvm-compiler[onnx]' to run these tests")
pytest.importorskip("onnxruntime")

from . import open_images as open_images
from . import open_texts as open_texts
from .open_models import MODELS, NODE, WHOLE, F, OpenModel, programs


def one_of(nodes: Any, shape: tuple[Any, ...], **weights: Any) -> OpenModel:
    """A model of an input ``x`` and a result ``y``."""
    return OpenModel(nodes, {"x": shape}, {"y": len(shape)}, [], weights, {}, 18, 1)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", sorted(MODELS))
def test_a_model_with_open_sizes_needs_few_programs(name: str):
    case = MODELS[name]()
    assert programs(case) <= case.most


@pytest.mark.parametrize("shape", [("?", "?", 4), (-1, -1, 4), (None, None, 4), ("", "?", 4)])
def test_sizes_without_a_name_are_each_their_own(shape: tuple[Any, ...]):
    m = dlvm.onnx.load(one_of([NODE("Relu", ["x"], ["y"])], shape).data())
    assert str(m.inputs[0]) == "f32[size_1,size_2,4]"
    for sizes in ((2, 3, 4), (1, 5, 4)):
        x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
        np.testing.assert_array_equal(m(x)[0], np.maximum(x, 0))
    assert len(m.programs) == 1


def test_a_name_without_a_letter_can_be_fixed():
    data = one_of([NODE("Relu", ["x"], ["y"])], ("?", 4)).data()
    assert str(dlvm.onnx.load(data, sizes={"?": 3}).inputs[0]) == "f32[3,4]"


def test_a_call_in_which_sizes_differ_says_which():
    case = MODELS["past_under_two_names"]()
    m = dlvm.onnx.load(case.data())
    m(**case.drawn(dict(batch=2, time=3, past_a=5, past_b=5)))
    with pytest.raises(dlvm.ShapeError, match=r"MatMul.* has size 8, the rows of .* are 9"):
        m(**case.drawn(dict(batch=2, time=3, past_a=5, past_b=6)))
    assert len(m.programs) == 1


def test_odd_images_are_refused_where_the_model_needs_even_ones():
    case = MODELS["unet"]()
    m = dlvm.onnx.load(case.data())
    m(**case.drawn(dict(batch=1, height=8, width=8)))
    with pytest.raises(dlvm.ShapeError, match=r"Concat, the node that makes y: concat along 1"):
        m(**case.drawn(dict(batch=1, height=9, width=8)))


def by_size() -> OpenModel:
    """A model that needs a program for each size: a reshape by the root of one."""
    nodes = [
        NODE("Shape", ["x"], ["s"]),
        NODE("Cast", ["s"], ["f"], to=F),
        NODE("Sqrt", ["f"], ["r"]),
        NODE("Cast", ["r"], ["i"], to=WHOLE),
        NODE("Concat", ["i", "i"], ["sizes"], axis=0),
        NODE("Reshape", ["x", "sizes"], ["z"]),
        NODE("Flatten", ["z"], ["w"]),
        NODE("Reshape", ["w", "s"], ["y"]),
    ]
    return one_of(nodes, ("n",))


def test_a_program_for_each_size_is_told_once():
    m = dlvm.onnx.load(by_size().data())
    with pytest.warns(dlvm.TraceWarning, match="'net' gets a program for each list of sizes") as w:
        for n in (4, 9, 16):
            m(np.ones(n, np.float32))
    assert len(w) == 1
    assert len(m.programs) == 3


def test_at_most_so_many_programs_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kept, "MOST", 2)
    m = dlvm.onnx.load(by_size().data())
    with warnings.catch_warnings(action="ignore"):
        for n in (4, 9, 4, 16, 25):
            m(np.ones(n, np.float32))
    first = [p.module.main.params[0].type.shape for p in m.programs]
    assert first == [(25,), (16,)]


def test_a_wrong_call_is_no_reason_to_tell():
    m = dlvm.onnx.load(by_size().data())
    with pytest.raises(dlvm.UserError):
        m(np.ones(5, np.float32))
