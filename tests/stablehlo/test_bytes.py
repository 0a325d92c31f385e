"""Bytes that ``jax.export`` writes: we find what jaxlib finds in them, and refuse damage."""

from __future__ import annotations

import base64
import contextlib
import zlib
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm.stablehlo.bytecode.exported import exported
from dlvm.stablehlo.bytecode.modules import read_artifact
from dlvm.stablehlo.reading.tree import Block, Tree

LAYER = """c-
oCrPjA#l6o0eh$LwZe8OvFjXlpIek|tJ2HX$I2HjqY?l&V1l(h3lNjFXtg)azaC+9^mq^wvu+{TBTYJ@i1O9{K?|aNrXF#~u
*w8?O_Ls-oEX`OSOpH*em|_`MYX_zWJx1Go*}z$R?KRkC~zD`Y(ji*Ood;ZryX>iGgbffFzR$6*|*pb-
P$9^oM&BJ>GAmT;1(S!20;#^2*N!XJdc2#WH8WK|pC7s4A&&EvUmH2Uyig^ic=O3AMk>u(Yk3mx8O88OGSf_uEMtGQ<id6qC
+;;|CvyxRXqVl0<pL`PU_`7mb&ztZ5^#_OB<R^o3*!PSlH-u}|U(z%62U=3s_8JE0fSayT|eBWjrAq_*eq#-
3Ce~pH0<ie1=rL2}TEON`X)wU%?Ft{ab+ZI+sSd~|mCK`@AXL3Z73*9h<CD1Y%U>$9obS4=#9EYLfOtr9CpGK!PGtY(eLYyM
0<DX7@30w7La-36+weOt^h|?`gXU#gZ8OMtkTPEjU>HO<!&Wz(abIyFzFb{7O*VafqxG<M7c6Wxc8mm-lE}AuTQCA;RN5|!;
n^==vTy{CrwE)=-CYjK-
I77b4xX@PVbkMTx2H<)Vxj@du`n=$RV@*5H#W7+sSl8NgMpO2b)kdsOyBBn`ZZ=Irn%ij@C1DKvdr=R%z1=hl;87ay&^5qrF
Y&$$;$YxM-u@X#{CH2vL6D?_SP@o+$!-{5g2;aw4B)Z<WFZ{}LvOg}_XDrri=K9SgZ^GP>_V5qFT`or>-
&QwOu}9~d~X{B{V3e=hwwN|yiu$l;EB>^bIom+GJ%y*mY2$Ym0C&9QyB!qG)lZMe$<1}7`i^~w4ZL%YEWIS;T)5fuY7s^#$>
0n+S%%KzFqCy>hL?I|6kSFPCxxm4JzNWcUh+V6NK@?_MB`l2rmf-yq~h8)!#%mil_R@se<!+_Ww2cJUd!Vj_27`LBO$mbd>u
1n_^c-+pQ?x>4K|z+BnF3)>t0(u<g)Td9>ViFjwv8MCp9~p}5o{G7Yp`N7Xa(8wdCo5MtCm"""
"""``tanh(x @ w)`` of f32[3,2], f32[4,3] and an argument that is not used, as JAX 0.10 wrote it."""


def layer() -> bytes:
    return zlib.decompress(base64.b85decode(LAYER.replace("\n", "")))


def test_bytes_are_read_without_jax(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "jax._src.interpreters.mlir", None)
    w, x = np.ones((3, 2), np.float32), np.full((4, 3), 0.1, np.float32)
    f = dlvm.stablehlo.load(layer())
    np.testing.assert_allclose(f(w, x, np.zeros(7, np.float32)), np.tanh(x @ w), rtol=1e-6)
    with pytest.raises(dlvm.UserError, match="takes 3 arguments, found 2"):
        f(w, x)
    with pytest.raises(
        dlvm.ShapeError, match=r"argument 1 .* expected f32\[4,3\], found f32\[3,2\]"
    ):
        f(w, w, w)


def test_cut_bytes_are_refused_and_changed_ones_are_a_function_or_an_error_for_users():
    rng = np.random.default_rng(7)
    data = layer()
    places = [int(i) for i in rng.integers(0, len(data), 60)]
    for place in places:
        with pytest.raises(dlvm.UserError, match=r"stablehlo\.load: "):
            dlvm.stablehlo.load(exported(data).artifact[: place % 500])
        changed = bytearray(data)
        changed[place] ^= 1 << (place % 8)
        with contextlib.suppress(dlvm.UserError):
            dlvm.stablehlo.load(changed)


def test_other_bytes_are_refused():
    for data in (b"", b"abc", b"\0" * 200, b"module {}"):
        with pytest.raises(dlvm.UserError, match="neither an artifact nor what jax"):
            dlvm.stablehlo.load(data)


def test_a_newer_bytecode_is_refused_by_its_version():
    data = bytearray(exported(layer()).artifact)
    data[4] = 99 << 1 | 1
    with pytest.raises(dlvm.UserError, match="of version 6 or less, found version 99"):
        dlvm.stablehlo.load(data)


# -- against jaxlib -------------------------------------------------------------------------------

jax = pytest.importorskip("jax", reason="the tests of StableHLO need jax: pip install jax")
export = pytest.importorskip("jax.export")
mlir = pytest.importorskip("jax._src.interpreters.mlir")
stablehlo = pytest.importorskip("jaxlib.mlir.dialects.stablehlo")
ir = pytest.importorskip("jaxlib.mlir.ir")

from dlvm.stablehlo.reading.bindings import read  # noqa: E402

from .test_load import CASES, REFUSED, lowered  # noqa: E402


def form(block: Block) -> list[Any]:
    """All that a block says, with the values in the order in which it names them."""
    numbers: dict[int, int] = {}
    return _form(block, numbers)


def _form(block: Block, numbers: dict[int, int]) -> list[Any]:
    def number(values: tuple[int, ...]) -> list[int]:
        return [numbers.setdefault(v, len(numbers)) for v in values]

    found: list[Any] = [number(block.params), block.types]
    for node in block.nodes:
        operands, results = number(node.operands), number(node.results)
        regions = [_form(r, numbers) for r in node.regions]
        found.append([node.name, operands, results, node.types, regions])
    return [*found, number(block.returned)]


def attributes(block: Block) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for node in block.nodes:
        found.append(node.attributes)
        found.extend(a for r in node.regions for a in attributes(r))
    return found


def agree(ours: Any, theirs: Any) -> bool:
    """Ours may hold more: what the text leaves out."""
    if isinstance(theirs, np.ndarray):
        return bool(ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes())
    if isinstance(theirs, dict):
        return all(agree(ours[k], v) for k, v in theirs.items())
    return bool(ours == theirs)


def assert_same(ours: Tree, theirs: Tree) -> None:
    assert {*ours.functions} == {*theirs.functions}
    for name, block in theirs.functions.items():
        assert form(ours.functions[name]) == form(block)
        pairs = zip(attributes(ours.functions[name]), attributes(block), strict=True)
        for own, other in pairs:
            other.pop("composite_attributes", None)
            assert agree(own, other), (own, other)


def text_of(artifact: bytes) -> str:
    with mlir.make_ir_context() as context:
        return str(stablehlo.deserialize_portable_artifact(context, artifact))


@pytest.mark.parametrize("name", CASES)
def test_bytes_say_what_their_text_says(name: str):
    f, args = CASES[name]
    artifact = export.export(jax.jit(f))(*args).mlir_module_serialized
    assert_same(read_artifact(artifact), read(text_of(artifact)))


@pytest.mark.parametrize("version", ["0.9.0", "0.14.0", "1.0.0", "1.8.0"])
def test_artifacts_of_older_versions_are_read(version: str):
    """Those before 0.15 keep the attributes of an operation in a dictionary."""
    for name in ("gather", "convolution", "scan", "max pool", "attention"):
        f, args = CASES[name]
        text = lowered(f, *args)
        artifact = stablehlo.serialize_portable_artifact_str(text, version)
        assert_same(read_artifact(artifact), read(text_of(artifact)))


@pytest.mark.parametrize("name", ["special", "hyperbolic", "top k", "scan", "gradient of groups"])
def test_functions_of_bytes_equal_jax(name: str):
    f, args = CASES[name]
    loaded = dlvm.stablehlo.load(export.export(jax.jit(f))(*args).serialize())
    expected = jax.tree.leaves(jax.jit(f)(*args))
    for ours, theirs in zip(dlvm.tree.leaves(loaded(*args)), expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6 * np.abs(theirs).max())


def test_composites_of_chlo_are_operations_of_ours():
    f, args = CASES["special"]
    loaded = dlvm.stablehlo.load(export.export(jax.jit(f))(*args).serialize())
    assert " = erf " in str(loaded.trace(*args))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused_by_name(name: str):
    f, args, said = REFUSED[name]
    disabled = [export.DisabledSafetyCheck.custom_call("lapack_spotrf_ffi")]
    data = export.export(jax.jit(f), disabled_checks=disabled)(*args).serialize()
    with pytest.raises(dlvm.UserError, match=said):
        dlvm.stablehlo.load(data)


def calling(lines: list[str]) -> bytes:
    """An artifact whose functions all take and give a number."""
    body = "\n".join(
        f"func.func @{name}(%x: tensor<f32>) -> tensor<f32> {{ {text} }}"
        for name, text in (line.split(": ", 1) for line in lines)
    )
    return stablehlo.serialize_portable_artifact_str(f"module {{ {body} }}", "1.0.0")


def test_functions_that_call_the_last_one_twice_are_refused():
    twice = (
        "%0 = func.call @{0}(%x) : (tensor<f32>) -> tensor<f32> "
        "%1 = func.call @{0}(%0) : (tensor<f32>) -> tensor<f32> return %1 : tensor<f32>"
    )
    lines = ["f0: return %x : tensor<f32>"]
    lines += [f"f{i + 1}: {twice.format(f'f{i}')}" for i in range(40)]
    lines += ["main: " + twice.format("f40")]
    with pytest.raises(dlvm.UserError, match="operations once its calls are written out"):
        dlvm.stablehlo.load(calling(lines))


def test_a_function_that_calls_itself_is_refused():
    text = "%0 = func.call @main(%x) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32>"
    with pytest.raises(dlvm.UserError, match="the function main calls itself"):
        dlvm.stablehlo.load(calling([f"main: {text}"]))


def test_a_constant_of_many_equal_elements_is_not_written_out():
    text = (
        "%0 = stablehlo.constant dense<1.0> : tensor<35184372088832xf32> "
        "%1 = stablehlo.slice %0 [0:3] : (tensor<35184372088832xf32>) -> tensor<3xf32> "
        "%2 = stablehlo.slice %1 [0:1] : (tensor<3xf32>) -> tensor<1xf32> "
        "%3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32> return %3 : tensor<f32>"
    )
    f = dlvm.stablehlo.load(calling([f"main: {text}"]))
    assert f(np.float32(0)) == 1
