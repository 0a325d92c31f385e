"""Layers of images against PyTorch's formulas, written as loops in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError
from tests import windows_by_loops as loops

KEY = dlvm.random.key(3)
RNG = np.random.default_rng(9)
IMAGES = RNG.normal(size=(2, 5, 4, 4))


@pytest.mark.parametrize(
    "size, options",
    [
        (3, {}),
        ((2, 1), {"stride": 2, "padding": (1, 0), "bias": False}),
        ((1, 3), {"dilation": (1, 2), "padding": "SAME", "groups": 2}),
        ((2, 3), {"groups": 4, "padding": ((1, 0), (2, 1))}),
    ],
)
def test_a_convolution_is_the_sum_over_its_windows_and_a_bias(size, options):
    layer = nn.Conv(KEY, 4, 8, size, dtype="f64", **options)
    given = {"padding": "VALID", **options}
    bias = 0 if given.pop("bias", True) is False else layer.bias
    expected = loops.conv(IMAGES, layer.weight, **given) + bias
    np.testing.assert_allclose(layer(IMAGES), expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize(
    "size, options",
    [
        (2, {}),
        ((3, 2), {"stride": (2, 3), "padding": 1, "output_padding": (1, 0)}),
        (2, {"groups": 2, "dilation": 2, "stride": 2}),
    ],
)
def test_a_transposed_convolution_is_the_gradient_of_the_convolution(size, options):
    layer = nn.ConvTranspose(KEY, 4, 6, size, dtype="f64", **options)
    y = layer(IMAGES) - layer.bias
    back = {k: v for k, v in options.items() if k != "output_padding"}
    x = RNG.normal(size=y.shape)
    _, pull = dlvm.vjp(lambda x: nn.conv(x, layer.weight, **{"padding": 0, **back}), x)
    (pulled,) = pull(IMAGES)
    np.testing.assert_allclose(y, pulled, rtol=1e-11, atol=1e-12)


def test_first_weights_lie_within_one_over_the_root_of_the_fan():
    layer = nn.Conv(KEY, 8, 16, 5, groups=2)
    end = 1 / np.sqrt(4 * 25)
    assert layer.weight.shape == (5, 5, 4, 16) and layer.weight.dtype == np.float32
    assert 0.95 * end < abs(layer.weight).max() <= end and abs(layer.bias).max() <= end
    assert nn.ConvTranspose(KEY, 8, 16, (3,), groups=2).weight.shape == (3, 8, 8)


@pytest.mark.parametrize("size", [1, 2, (5, 3), (None, 1), (7, 4)])
def test_adaptive_pools_cover_all_places(size):
    for f, fold in ((nn.AdaptiveAvgPool, np.mean), (nn.AdaptiveMaxPool, np.max)):
        expected = loops.adaptive(fold)(IMAGES, size)
        np.testing.assert_allclose(f(size)(IMAGES), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("mode, corners", [("nearest", False), ("linear", False), ("linear", True)])
@pytest.mark.parametrize(
    "to", [{"size": (3, 9)}, {"size": 1}, {"scale_factor": 2}, {"scale_factor": (1.5, 0.5)}]
)
def test_upsampling_takes_the_place_below_or_the_mean_of_two(to, mode, corners):
    if corners and "scale_factor" in to:
        corners = False
    layer = nn.Upsample(**to, mode=mode, align_corners=corners)
    expected = loops.interpolate(IMAGES, **to, mode=mode, corners=corners)
    np.testing.assert_allclose(layer(IMAGES), expected, rtol=1e-12, atol=1e-14)


LAYERS = [
    nn.Conv(KEY, 4, 2, 3),
    nn.ConvTranspose(KEY, 4, 2, 3),
    nn.MaxPool(2),
    nn.AvgPool(2),
    nn.AdaptiveAvgPool((2, 3)),
    nn.AdaptiveMaxPool((2, 3)),
    nn.Upsample(scale_factor=2, mode="linear"),
    nn.Upsample(size=(3, 2)),
    nn.Flatten(1, 2),
]


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_halves_are_computed_in_f32_and_empty_batches_are_images(layer):
    halved = dlvm.tree.map(lambda p: p.astype("f2"), layer)
    found = halved(IMAGES.astype("f2"))
    assert found.dtype == np.float16
    wide = dlvm.tree.map(lambda p: p.astype("f8"), halved)
    np.testing.assert_allclose(found, wide(IMAGES.astype("f2").astype("f8")), rtol=4e-3, atol=2e-3)
    assert layer(IMAGES[:0]).shape == (0, *found.shape[1:])


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: type(layer).__name__)
def test_a_batch_of_batches_is_a_vmap(layer):
    batches = np.stack([IMAGES, -IMAGES]).astype("f4")
    found = dlvm.vmap(layer)(batches)
    for x, y in zip(batches, found, strict=True):
        np.testing.assert_allclose(y, layer(x), rtol=1e-5, atol=1e-5)


def test_open_sizes_are_flattened_pooled_to_one_and_doubled():
    def f(x):
        pooled = nn.AdaptiveAvgPool(1)(nn.Upsample(scale_factor=2)(x))
        return nn.Flatten()(pooled)

    module = dlvm.trace(f, dlvm.spec("f64[B,H,W,4]"))
    (found,) = module.run(module.main.name, IMAGES)
    np.testing.assert_allclose(found, IMAGES.mean((1, 2)), rtol=1e-12)


@pytest.mark.parametrize(
    "wrong, said",
    [
        (lambda: nn.Conv(KEY, 4, 2, 0), "expected kernel_size"),
        (lambda: nn.Conv(KEY, 4, 6, 3, groups=3), "don't make 3 groups"),
        (lambda: nn.AdaptiveAvgPool(0)(IMAGES), "expected output_size"),
        (lambda: nn.AdaptiveMaxPool((1, 2))(IMAGES[:, :, :0]), "no places"),
        (lambda: nn.Upsample()(IMAGES), "expected size or scale_factor"),
        (lambda: nn.Upsample(size=2, mode="cubic")(IMAGES), "expected mode"),
        (
            lambda: dlvm.trace(nn.AdaptiveAvgPool(2), dlvm.spec("f32[B,H,W,3]")),
            "axis of open size H",
        ),
        (
            lambda: dlvm.trace(nn.Upsample(scale_factor=1.5), dlvm.spec("f32[B,H,W,3]")),
            "only be resized by a whole scale_factor",
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(wrong, said):
    with pytest.raises(ArgumentError, match=said):
        wrong()


@pytest.mark.parametrize(
    "theirs, ours",
    [
        ("Conv2d", "Conv"),
        ("ConvTranspose1d", "ConvTranspose"),
        ("MaxPool3d", "MaxPool"),
        ("AdaptiveAvgPool2d", "AdaptiveAvgPool"),
        ("BatchNorm2d", "BatchNorm"),
    ],
)
def test_names_of_pytorch_lead_to_ours(theirs, ours):
    with pytest.raises(AttributeError, match=rf"write dlvm\.nn\.{ours}$"):
        getattr(nn, theirs)
