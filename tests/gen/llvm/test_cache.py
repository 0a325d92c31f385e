"""Compiled code is kept on disk under all that it depends on, and made anew without a word."""

import logging
from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.gen.llvm import binding as llvm
from dlvm.gen.llvm import cache
from dlvm.target import Target

TEXT = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
HOST = Target.host()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """How often LLVM was asked for code."""
    calls = []
    prepare = llvm.prepare
    monkeypatch.setattr(llvm, "prepare", lambda *a: (calls.append(a), prepare(*a))[1])
    return calls


def test_the_same_code_is_made_once(made):
    first = llvm.object_code(TEXT, HOST)
    assert llvm.object_code(TEXT, HOST) == first
    assert len(made) == 1
    assert llvm.Library(first, HOST).address("f")


def test_all_that_code_depends_on_is_in_its_key(made, monkeypatch):
    def different():
        llvm.object_code(TEXT, HOST)
        llvm.object_code(TEXT.replace("1", "2"), HOST)
        llvm.object_code(TEXT, HOST, jit=False)
        llvm.object_code(TEXT, replace(HOST, features=""))
        llvm.object_code(TEXT, replace(HOST, cpu="x86-64"))

    different()
    assert len(made) == 5
    different()
    assert len(made) == 5
    monkeypatch.setattr("llvmlite.__version__", "another")
    different()
    assert len(made) == 10


def test_ptx_is_made_once_for_each_gpu(made):
    text = "define ptx_kernel void @k() {\n  ret void\n}\n"
    first = llvm.assembly(text, Target.cuda("sm_80"))
    assert ".target sm_80" in first and ".visible .entry k" in first
    assert llvm.assembly(text, Target.cuda("sm_80")) == first
    assert len(made) == 1
    assert ".target sm_90" in llvm.assembly(text, Target.cuda("sm_90"))
    assert len(made) == 2


def test_without_its_own_source_nothing_is_kept(made, folder, monkeypatch):
    monkeypatch.setattr(llvm, "source", lambda *_: None)
    for _ in range(2):
        llvm.object_code(TEXT, HOST)
    assert len(made) == 2
    assert list(folder.iterdir()) == []
    assert cache.source("dlvm.gen", "missing.py") is None


def test_the_cache_can_be_switched_off(made, folder, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "0")
    for _ in range(2):
        llvm.object_code(TEXT, HOST)
    assert len(made) == 2
    assert list(folder.iterdir()) == []


def test_a_place_that_is_none_is_said_once(monkeypatch, caplog):
    cache._store.cache_clear()
    monkeypatch.setenv("DLVM_CACHE_DIR", "somewhere")
    for _ in range(2):
        assert cache.store() is None
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


def test_the_limit_is_a_variable(monkeypatch, caplog):
    assert cache.store().limit == 1 << 30
    monkeypatch.setenv("DLVM_CACHE_BYTES", "1000")
    assert cache.store().limit == 1000
    monkeypatch.setenv("DLVM_CACHE_BYTES", "much")
    assert cache.store().limit == 1 << 30
    assert len(caplog.records) == 1


def test_without_a_variable_it_is_the_users_own_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("DLVM_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of user"))
    cache._store.cache_clear()
    assert cache.store().folder.name == "v1"
    assert "dlvm" in cache.store().folder.parts


def test_damaged_code_is_never_run(folder, caplog):
    def f(x):
        return dlvm.tanh(x) * 3

    x = np.linspace(-1, 1, 7, dtype=np.float32)
    expected = dlvm.function(f)(x)
    files = list((folder / "v1").iterdir())
    assert files
    for file in files:
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 0xFF
        file.write_bytes(content)
    np.testing.assert_array_equal(dlvm.function(f)(x), expected)
    assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == 1
