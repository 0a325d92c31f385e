"""Large arrays are told apart by digests, which are kept where nobody can write."""

import gc

import numpy as np

from dlvm.ir import types
from dlvm.ir.types import contents


def test_an_array_that_changes_has_other_contents():
    x = np.zeros(5000)
    before = contents(x)
    view = x[:]
    view.setflags(write=False)
    assert contents(view) == before
    x[0] = 1
    assert contents(x) != before and contents(view) == contents(x)


def test_the_digest_of_what_nobody_changes_is_made_once(monkeypatch):
    x = np.frombuffer(bytes(40000), np.float64)
    before = contents(x)
    monkeypatch.setattr(types, "hashlib", None)
    assert contents(x) == before


def test_digests_go_with_their_arrays():
    x = np.frombuffer(bytes(range(256)) * 100, np.uint8)
    contents(x)
    place = id(x)
    assert place in types._DIGESTS
    del x
    gc.collect()
    assert place not in types._DIGESTS
