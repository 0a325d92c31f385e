"""What the array API standard asks of arrays and of the namespace."""

from __future__ import annotations

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import ArgumentError, StagedTypeError

X = np.array([1.0, 2.0])


def test_a_staged_array_names_its_namespace_and_device():
    def f(x):
        xp = x.__array_namespace__(api_version="2024.12")
        assert xp is dlvm and x.__array_namespace__() is dlvm
        assert x.device in xp.__array_namespace_info__().devices()
        assert x.to_device(x.device) is x
        return xp.sum(xp.asarray(x, device=x.device)) + xp.zeros((), device="cpu")

    assert dlvm.function(f)(X) == 3.0
    assert dlvm.grad(f)(X).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda x: x.to_device("gpu"), ArgumentError, 'or write device="cpu"'),
        (lambda x: x.to_device("cpu", stream=1), ArgumentError, "there are no streams"),
        (lambda x: dlvm.ones_like(x, device="gpu"), ArgumentError, 'or write device="cpu"'),
        (lambda x: x.__array_namespace__(api_version="1999"), ArgumentError, "2024.12"),
        (lambda x: x.__dlpack__(), StagedTypeError, "return it"),
        (lambda x: x.__dlpack__(stream=None, max_version=(1, 0)), StagedTypeError, "return it"),
        (lambda x: x.__dlpack_device__(), StagedTypeError, "return it"),
        (lambda x: np.from_dlpack(x), StagedTypeError, "return it"),
    ],
)
def test_what_only_memory_has_is_an_error_with_its_remedy(call, kind, said):
    with pytest.raises(kind, match=said):
        dlvm.function(call)(X)


CREATED = {
    "arange": (3,),
    "asarray": (X,),
    "astype": (X, "f4"),
    "empty": (3,),
    "empty_like": (X,),
    "eye": (3,),
    "from_dlpack": (X,),
    "full": (3, 1.0),
    "full_like": (X, 1.0),
    "linspace": (0.0, 1.0, 3),
    "ones": (3,),
    "ones_like": (X,),
    "zeros": (3,),
    "zeros_like": (X,),
}


@pytest.mark.parametrize("name", CREATED)
def test_what_makes_arrays_takes_the_one_device_that_there_is(name):
    make = getattr(dlvm, name)
    for device in (None, "cpu"):
        assert np.array_equal(make(*CREATED[name], device=device), make(*CREATED[name]))
    with pytest.raises(ArgumentError, match=f"{name} takes no device='gpu'"):
        make(*CREATED[name], device="gpu")


def test_from_dlpack_copies_if_it_is_asked_to():
    assert np.may_share_memory(dlvm.from_dlpack(X), X)
    assert np.may_share_memory(dlvm.from_dlpack(X, copy=False), X)
    found = dlvm.from_dlpack(X, copy=True)
    assert not np.may_share_memory(found, X) and np.array_equal(found, X)


def test_the_namespace_says_what_it_has():
    info = dlvm.__array_namespace_info__()
    assert info.default_device() == "cpu" and info.devices() == ["cpu"]
    assert info.capabilities()["data-dependent shapes"] is False
    made = {"real floating": dlvm.zeros(1), "integral": dlvm.arange(1), "indexing": dlvm.argmax(X)}
    assert info.default_dtypes(device="cpu") == {k: v.dtype for k, v in made.items()}
    for kind in (None, "bool", "signed integer", ("integral", "real floating"), "numeric"):
        found = info.dtypes(kind=kind)
        wanted = np.__array_namespace_info__().dtypes(kind=kind)
        assert found == {k: v for k, v in wanted.items() if np.dtype(v).kind != "c"}
    with pytest.raises(ArgumentError, match="gpu"):
        info.dtypes(device="gpu")
    assert dlvm.__array_api_version__ == "2024.12"
