"""Kernels in sizes of their own: one code for layers of images of different sizes."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.gen.call.sizes import largest
from dlvm.gen.program import own_sizes
from dlvm.ir.sizes import dims
from dlvm.ir.sizes.dims import evaluate, floordiv, maximum, minimum, mod, symbol

H, W = symbol("h"), symbol("w")
HALF = floordiv(H - 1, 2)


@pytest.mark.parametrize(
    "sizes",
    [
        (HALF + 1,),
        (HALF + 3, HALF),
        (HALF, floordiv(H - 1, 4)),
        (floordiv(H - 1, 2), floordiv(H - 5, 8)),
        (maximum(0, 16 * H - 1) + 2,),
        (floordiv(H + 2, 3) * floordiv(H + 2, 3),),
    ],
    ids=str,
)
def test_a_size_of_a_kernel_stands_for_all_calls_of_a_symbol(sizes):
    atoms = {a for d in sizes for a in dims.atoms_of(d)}
    found = own_sizes._own("h", atoms)
    assert found is not None
    values, here = found
    for h in range(0, 70):
        now = evaluate(here, {"h": h})
        assert now >= 0
        for d in sizes:
            mine = dims.with_atoms(d, values)
            assert evaluate(mine, {"h": now}) == evaluate(d, {"h": h}), (d, h)


@pytest.mark.parametrize(
    "sizes",
    [
        (HALF, H),
        (HALF, floordiv(H, 2)),
        (HALF, floordiv(H - 1, 3)),
        (floordiv(H * W, 2),),
        (HALF, maximum(0, H - 4)),
        (minimum(8, H),),
        (mod(H, 3),),
    ],
    ids=str,
)
def test_calls_that_are_no_quotients_of_one_stay_as_they_are(sizes):
    assert own_sizes._own("h", {a for d in sizes for a in dims.atoms_of(d)}) is None


def network(x, w):
    """Three layers, each of half the image of the one before, the last of its whole."""
    for _ in range(3):
        x = nn.relu(nn.conv(x, w, stride=2, padding=1, layout="channels_first"))
    return x


def test_layers_of_halved_images_have_one_code_and_the_bits_of_known_sizes():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(4, 4, 3, 3)).astype(np.float32)
    open_ = dlvm.function(network).compile(dlvm.spec("f32[1,4,H,W]"), dlvm.spec("f32[4,4,3,3]"))
    launches = [line for line in open_.text("loops").splitlines() if "launch @" in line]
    names = [line.split("@")[1].split("(")[0] for line in launches]
    assert len(set(names)) < len(names), launches
    assert any("sizes (H=floordiv(H-1,2)+1" in line for line in launches)
    assert largest(open_.road.executable.interface) >= 1 << 12, "the call has its fast entry"
    for h, wide in ((8, 12), (1, 1), (33, 7), (16, 65)):
        x = rng.normal(size=(1, 4, h, wide)).astype(np.float32)
        np.testing.assert_array_equal(open_(x, w), dlvm.function(network)(x, w))
