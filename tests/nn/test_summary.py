"""Networks as text: ``repr`` shows types, ``nn.summary`` a table of what each layer computes."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import dlvm
from dlvm import nn
from dlvm.base.errors import ArgumentError

KEY = dlvm.random.key(0)
NET = nn.Sequential([nn.Linear(KEY, 4, 8), nn.relu, nn.MLP(KEY, (8, 8, 2), dtype="f16")])


def test_a_table_counts_parameters_bytes_and_flops_of_each_layer():
    rows = nn.summary(NET, dlvm.spec("f32[B,4]")).rows
    found = [(r.depth, r.kind, r.shape, r.parameters, r.bytes) for r in rows]
    assert found == [
        (0, "Sequential", "(B, 2)", 130, 340),
        (1, "Linear", "(B, 8)", 40, 160),
        (1, "Lambda", "(B, 8)", 0, 0),
        (1, "MLP", "(B, 2)", 90, 180),
        (2, "Linear", "(B, 8)", 72, 144),
        (2, "Linear", "(B, 2)", 18, 36),
    ]
    assert str(rows[1].flops) == "72*B"


def test_the_text_is_a_table_and_the_network_stays_as_it_is():
    before = type(NET.layers[0])
    text = str(nn.summary(NET, np.ones((3, 4), np.float32)))
    title, line, whole, first, *_ = text.splitlines()
    assert title.split() == ["layer", "shape", "out", "parameters", "bytes", "flops"]
    assert set(line) == {"-"} and whole.startswith("Sequential") and "216" in first
    assert first.startswith("  layers.0 Linear") and type(NET.layers[0]) is before is nn.Linear


def test_layers_of_the_user_states_and_options_are_in_the_table():
    @dataclass
    class Block:
        lstm: nn.LSTM
        heads: dict
        unused: nn.Linear

        def __call__(self, x, training):
            hidden, _ = self.lstm(x)
            return self.heads["a"](hidden) + self.heads["a"](hidden)

    linear = nn.Linear(KEY, 3, 2)
    block = Block(nn.LSTM(KEY, 4, 3), {"a": linear}, linear)
    rows = nn.summary(block, dlvm.spec("f32[5,7,4]"), training=True).rows
    assert [(r.name, r.shape) for r in rows] == [
        ("", "(5, 7, 2)"),
        ("lstm", "(5, 7, 3)"),
        ("heads.a", "(5, 7, 2)"),
        ("unused", "-"),
    ]
    assert rows[2].flops == 2 * 35 * (2 * 3 * 2 + 2) and rows[1].flops > 2 * 35 * 12 * 7


class Pair(NamedTuple):
    first: Any
    second: Any

    def __call__(self, x):
        return self.second(self.first(x))


class Held(NamedTuple):
    layer: Any


@dataclass(slots=True)
class Slotted:
    held: Held

    def __call__(self, x):
        return self.held.layer(x)


@dataclass(frozen=True, slots=True)
class Frozen:
    parts: Any

    def __call__(self, x):
        return self.parts["b"](self.parts["a"](x))


def test_layers_in_named_tuples_slots_frozen_classes_and_ordered_dicts_are_in_the_table():
    linear = nn.Linear(KEY, 3, 3)
    parts = OrderedDict(a=linear, b=Slotted(Held(linear)))
    net = Pair(Frozen(parts), linear)
    rows = nn.summary(net, dlvm.spec("f32[2,3]")).rows
    assert [(r.depth, r.name, r.kind, r.flops) for r in rows] == [
        (0, "", "Pair", 3 * 42),
        (1, "first", "Frozen", 2 * 42),
        (2, "parts.a", "Linear", 42),
        (2, "parts.b", "Slotted", 42),
        (3, "held.layer", "Linear", 42),
        (1, "second", "Linear", 42),
    ]
    assert [r.parameters for r in rows] == [36, 24, 12, 12, 12, 12]  # one layer in three places
    assert type(net.first.parts["b"].held.layer) is nn.Linear and type(parts) is OrderedDict


@pytest.mark.parametrize("wrong", [nn.Linear, Pair, (nn.relu,)])
def test_a_class_and_a_tuple_are_no_networks(wrong):
    with pytest.raises(ArgumentError, match=r"found (type|tuple)"):
        nn.summary(wrong, dlvm.spec("f32[3]"))


def test_what_is_no_network_is_refused():
    with pytest.raises(ArgumentError, match="expected a network"):
        nn.summary(nn.relu, dlvm.spec("f32[3]"))


def test_the_repr_of_a_layer_shows_types_and_that_of_a_network_has_lines():
    assert repr(nn.Linear(KEY, 2, 3)) == "Linear(weight=f32[2,3], bias=f32[3])"
    assert repr(nn.LayerNorm(4, bias=False)) == "LayerNorm(scale=f32[4], bias=None, eps=1e-05)"
    assert (
        repr(NET)
        == """\
Sequential(
  layers=(
    Linear(weight=f32[4,8], bias=f32[8]),
    Lambda(fn=nn.relu),
    MLP(
      layers=(Linear(weight=f16[8,8], bias=f16[8]), Linear(weight=f16[8,2], bias=f16[2])),
      activation=nn.relu,
    ),
  ),
)"""
    )
