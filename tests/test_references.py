"""What the suite compares with machine code is computed by references, and by no program.

Calls without a decorator run programs for users; every test but those that are marked
``undecorated`` has them computed by references. These tests count both.
"""

import gc
import sys

import numpy as np
import pytest

import dlvm
from dlvm.dsl.call.programs import Programs
from dlvm.dsl.elements.records import Record
from dlvm.ir.interpret import Interpreter
from tests.names.forms import forms_of, public_names
from tests.names.table import SILENT

NO_NUMBERS = ("conj", "from_dlpack", "nn.dropout", "real", "real_if_close")
"""Functions with calls that need no operation."""


@pytest.fixture
def ran(monkeypatch):
    """How many references and how many programs ran."""
    counts = {"references": 0, "programs": 0}

    def counted(cls, method, word, size):
        run = getattr(cls, method)

        def call(self, *args, **kwargs):
            counts[word] += size(self)
            return run(self, *args, **kwargs)

        monkeypatch.setattr(cls, method, call)

    counted(Interpreter, "step", "references", lambda self: 1)
    counted(Record, "__call__", "references", lambda r: len(r.steps) + len(r.constants))
    counted(Programs, "find", "programs", lambda self: 1)
    return counts


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", [n for n in public_names() if n not in SILENT])
def test_the_suite_computes_every_public_name_by_references(name, ran):
    for form in forms_of(name):
        for _ in range(3):
            ran["references"] = 0
            form.call(*form.args, **form.options)
            assert ran["references"] or name in NO_NUMBERS, f"{form} ran no reference"
    assert not ran["programs"], "a program ran, so that it may be compared with itself"


def test_the_suite_computes_optimisers_by_references(ran):
    x = np.ones(3)
    for make in (dlvm.optim.adam, dlvm.optim.sgd, dlvm.optim.lion, dlvm.optim.rmsprop):
        ran["references"] = 0
        optimizer = make(0.1)
        state = optimizer.init(x)
        updates, _ = optimizer.update(x, state, x)
        dlvm.optim.apply(x, updates)
        assert ran["references"]
    assert not ran["programs"]


def blocks_after(calls):
    """Blocks of memory that Python holds after some calls."""
    for call in calls:
        call()
    gc.collect()
    return sys.getallocatedblocks()


def different(start, stop):
    """Calls of which no two are alike."""
    for n in range(start, stop):
        yield lambda n=n: dlvm.exp(np.ones((n, 1)))
        yield lambda n=n: dlvm.multiply(np.ones(3), n * 0.5)
        yield lambda n=n: dlvm.permute_dims(np.ones((1, n)), (1, 0))
        yield lambda n=n: dlvm.nn.one_hot(np.zeros(2, int), n + 1)


@pytest.mark.undecorated
def test_ten_thousand_different_calls_keep_no_memory():
    with dlvm.debug(references=True):
        before = blocks_after(different(1, 200))
        after = blocks_after(different(200, 2500))
    assert after - before < 5000, "9,200 calls keep more than a block each"
