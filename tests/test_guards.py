"""Operations between guard pages: none touches what is not its own, and one that does is caught."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.guards import guards
from tests.test_house import ROOT

PLANTED = """
from dlvm.gen.access import Access
from tests.guards import child

right = Access._address
Access._address = lambda self, place, offset: right(self, place, offset + ({off}))
child(["neg f32 0", "neg f32 1", "neg f32 2"])
"""


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
