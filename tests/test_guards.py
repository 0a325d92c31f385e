"""Operations between guard pages: none touches what is not its own, and one that does is caught."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.guards import guards
from tests.test_house import ROOT

PLANTED = """
from dlvm.gen.cpu.access import Access
from tests.guards import child

right = Access._address
Access._address = lambda self, place, offset: right(self, place, offset + ({off}))
child(["neg f32 0", "neg f32 1", "neg f32 2"])
"""

OPEN = """
import numpy as np
import dlvm
from tests.guards import Guarded

@dlvm.function(dynamic={"x": "1,N"})
def rows(x):
    return x.sum(1), dlvm.concat([x, x], 1).sum(1), x + x

for kind in (np.int8, np.int32, np.float32, np.float64):
    for n in range(1, 40):
        x = (np.arange(n).reshape(1, n) % 3).astype(kind)
        for side in ("end", "start"):
            between = Guarded(x.nbytes, side)
            s, t, d = rows(between.array(x))
            assert s[0] == x.sum() and t[0] == 2 * x.sum() and (d == 2 * x).all()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="pages are forbidden by mprotect")
def test_rows_of_open_length_end_where_they_end():
    command = [sys.executable, "-c", OPEN]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="pages are forbidden by mprotect")
def test_no_operation_touches_what_is_not_its_own():
    assert guards(short=True) == []


@pytest.mark.skipif(sys.platform != "linux", reason="pages are forbidden by mprotect")
@pytest.mark.parametrize("off", [1, -1])
def test_an_access_that_is_off_by_one_ends_the_process(off):
    command = [sys.executable, "-c", PLANTED.format(off=off)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode < 0
    assert done.stdout.splitlines()[-1].startswith("try neg f32")
