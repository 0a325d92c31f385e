"""Values that go into regions and out of them: each lies in one way for all regions."""

from __future__ import annotations

import numpy as np

from dlvm.ir import parse
from dlvm.ir.sharding.mesh import Mesh

from .simulated import Ranks, assert_as_on_one_device

COMPETING = """dlvm 1
func @main(%p: bool, %x: f64[4,6], %w: f64[4,6]) -> f64[4,6] {
  %0 = cond %p, [%x, %w] : f64[4,6]
    then(%a: f64[4,6], %b: f64[4,6]) -> f64[4,6] {
      %0 = shard %b spec=("m", "") : f64[4,6]
      %1 = mul %a, %0 : f64[4,6]
      return %1
    }
    otherwise(%a: f64[4,6], %b: f64[4,6]) -> f64[4,6] {
      %0 = shard %a spec=("", "m") : f64[4,6]
      %1 = tanh %0 : f64[4,6]
      return %1
    }
  return %0
}
"""


def test_branches_that_want_an_operand_differently_are_given_one_piece():
    """One branch cuts rows and the other columns by the same axis of the mesh."""
    module = parse(COMPETING)
    ranks = Ranks.of(module, Mesh.named("m=2")).checked()
    x, w = (np.random.default_rng(i).normal(size=(4, 6)) for i in range(2))
    for p in (np.True_, np.False_):
        want = module.run("main", np.asarray(p), x, w)
        assert_as_on_one_device(ranks, (np.asarray(p), x, w), want)
