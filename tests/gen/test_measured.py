"""What is measured of the machine: sane, kept, read by every compile, and forgotten."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import dlvm
from dlvm.compile import Options
from dlvm.gen import measured
from dlvm.gen.measured import APART, cache_sizes, keep, kept, known, measure
from dlvm.machine import Level, Machine
from dlvm.target import Target


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "1")
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))


def test_what_is_measured_is_in_order_and_near_what_is_built_in(monkeypatch):
    monkeypatch.setattr(measured, "SECONDS", 1e-4)
    monkeypatch.setattr(measured, "ROUNDS", 3)
    monkeypatch.setattr(measured, "FAR", 1 << 20)
    host = Target.host()
    found, built_in = measure(host), Machine.of(host.cpu, host.vector_bits)
    sizes = [level.size for level in found.levels]
    assert 0 < sizes[0] < sizes[1] < sizes[2] and sizes[3] == 0
    rates = [level.rate for level in found.levels]
    assert rates == sorted(rates, reverse=True)
    assert built_in.rate / APART <= found.rate <= built_in.rate * APART


def test_a_clock_that_is_late_at_every_look_measures_too(monkeypatch):
    monkeypatch.setattr(measured, "SECONDS", 0.0)
    monkeypatch.setattr(measured, "ROUNDS", 1)
    monkeypatch.setattr(measured, "FAR", 1 << 20)
    assert measure(Target.host()).rate > 0


def test_it_is_kept_read_by_compiles_and_forgotten():
    host = Target.host()
    assert kept(host) is None and known(host) == host
    machine = Machine(
        7.5, (Level(1 << 14, 9.0), Level(1 << 18, 8.0), Level(1 << 20, 7.0), Level(0, 6.0))
    )
    assert keep(host, machine)
    assert (
        kept(host) == machine == Options().machine().machine == Options(threads=1).machine().machine
    )
    x = np.ones(1 << 21, np.float32)
    slow = dlvm.function(lambda x: -x).compile(x).report.estimates
    assert sum(slow.values()) == round(1000 / 6.0) * 8 * x.size
    assert keep(host, None) and kept(host) is None and Options().machine().measured is None
    assert sum(dlvm.function(lambda x: -x).compile(x).report.estimates.values()) != sum(
        slow.values()
    )


def test_what_was_measured_of_another_processor_is_not_used():
    host = Target.host()
    keep(host, Machine.of("znver4", 512))
    assert kept(replace(host, cpu="another")) is None


def test_nothing_is_kept_where_nothing_may_be(monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "0")
    assert not keep(Target.host(), Machine.of("", 128)) and kept(Target.host()) is None


@pytest.mark.parametrize(
    ("caches", "expected"),
    [
        (
            (
                (1, "Data", "32K", "0"),
                (1, "Instruction", "64K", "0"),
                (2, "Unified", "1024K", "0"),
                (3, "Unified", "32768K", "0-6,8"),
            ),
            [32 << 10, 1 << 20, 4 << 20],
        ),
        (((1, "Data", "64K", "0"), (2, "Unified", "1024K", "0-1")), []),
        (((1, "Data", "what", "0"),), []),
    ],
)
def test_caches_are_what_linux_says(tmp_path, caches, expected):
    for i, said in enumerate(caches):
        (folder := tmp_path / f"index{i}").mkdir()
        names = ("level", "type", "size", "shared_cpu_list")
        for name, text in zip(names, said, strict=True):
            (folder / name).write_text(f"{text}\n")
    assert cache_sizes(tmp_path) == expected
    assert cache_sizes(tmp_path / "nothing") == []
