"""Arrays without axes as parameters of every public function, outside of traces and in them."""

from __future__ import annotations

import pytest

from .forms import forms_of, public_names
from .table import RANDOM, SILENT
from .zero_d import ZERO_D, fault, variants

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")
NAMES = [n for n in public_names() if n not in SILENT and n not in RANDOM]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", NAMES)
def test_an_array_without_axes_is_its_number_or_refused(name: str):
    form = forms_of(name)[0]
    wrong = [fault(said, changed, staged=False) for said, changed in variants(form)]
    wrong += [fault(said, changed, staged=True) for said, changed in variants(form, ZERO_D[:1])]
    assert not [w for w in wrong if w], "\n".join([w for w in wrong if w][:12])
