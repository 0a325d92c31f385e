"""The transform ``tiles`` refuses numbers that are no tiles."""

import pytest

from dlvm.base.errors import UserError
from dlvm.gen.lower.kernels import lower
from dlvm.gen.schedule.blocks import blocks
from dlvm.gen.schedule.transform import WHOLE, apply
from dlvm.gen.schedule.transforms.gpu.tiles import Tiles
from tests.gen.compiled import kernel

PRODUCT = """func @f(%x: f32[70,40], %y: f32[40,50]) -> f32[70,50] {
  %0 = matmul %x, %y : f32[70,50]
  return %0
}
"""
PLAIN = lower(kernel(PRODUCT, "product")[0], "k")


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ((64, 64, 16, 4, 0), "each number is 1 or more"),
        ((64, 64, -1, 4, 4), "each number is 1 or more"),
        ((64, 64, 16, 5, 4), "do not divide those of a block"),
        ((128, 128, 8, 1, 1), "1024 lanes at most, not 16384"),
        ((64, 64, 32, 32, 32, "wgmma"), "one of fma, mma.bf16, mma.f16, mma.tf32, not wgmma"),
        ((64, 64, 32, 32, 4, "mma.bf16"), "16 rows, 8 columns and 16 of k at once"),
        ((64, 64, 8, 32, 32, "mma.f16"), "16 rows, 8 columns and 16 of k at once"),
    ],
)
def test_numbers_that_are_no_tiles_are_refused(numbers, message):
    with pytest.raises(UserError, match=message):
        apply(PLAIN, [Tiles(WHOLE, *numbers)])


def test_the_tiles_of_the_planner_are_taken():
    (step,) = blocks(PLAIN, 128).steps
    assert step.startswith("tiles %kernel rows=")
