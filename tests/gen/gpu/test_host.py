"""What a call costs on the host: how many functions of Python run, and what is kept for later."""

import gc
import sys
import threading

import numpy as np
import pytest

import dlvm
from dlvm.gen.gpu import graphs
from dlvm.gen.gpu.devices.choosing import using
from dlvm.gen.gpu.devices.driver import Driver

from .kinds import KINDS, f32
from .standing_in import StandIn
from .test_driver import compiled
from .test_programs import assert_same_bits, machine_code

CALL, LAUNCH = 30, 10
"""Functions that a call of one launch runs at most, and each further launch."""


def on_device(stand_in, *arrays):
    """Copies of arrays on the device."""
    same = dlvm.function(lambda x: x + 0, target="cuda:sm_90")
    for x in arrays:
        stand_in.learn(same.compile(x))
    return [same(x) for x in arrays]


def functions_of(f, *arguments):
    """How many functions of Python a call runs, without those of the stand-in."""
    names = []

    def note(frame, event, _):
        if event == "call" and "tests" not in frame.f_code.co_filename:
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        f(*arguments)
    finally:
        sys.setprofile(before)
    return len(names)


def quiet(stand_in):
    """Launches and copies do nothing from now on."""
    stand_in.cuLaunchKernel = lambda *_: stand_in.calls.append("cuLaunchKernel") or 0


def cost(kind, **options):
    """The functions that a later call runs, and its launches."""
    f, arguments = KINDS[kind]
    stand_in = StandIn()
    f = dlvm.function(f, target="cuda:sm_90", **options)
    stand_in.learn(f.compile(*arguments))
    with using(Driver(stand_in)):
        there = on_device(stand_in, *arguments)
        f(*there)
        quiet(stand_in)
        f(*there)
        before = stand_in.count("cuLaunchKernel")
        return functions_of(f, *there), stand_in.count("cuLaunchKernel") - before


def test_a_call_of_one_launch_runs_few_functions():
    count, launches = cost("axpy")
    assert launches == 1
    assert count <= CALL


def test_a_further_launch_runs_few_functions(monkeypatch):
    monkeypatch.setattr(graphs, "LEAST", 1 << 30)
    one, _ = cost("axpy")
    count, launches = cost("gradient")
    assert launches > 5
    assert count - one <= LAUNCH * (launches - 1)


def test_calls_in_the_same_memory_are_one_launch_each():
    f, arguments = KINDS["gradient"]
    stand_in, g = StandIn(), dlvm.function(f, target="cuda:sm_90")
    stand_in.learn(g.compile(*arguments))
    with using(Driver(stand_in)):
        there = on_device(stand_in, *arguments)
        for _ in range(3):
            g(*there)
        stand_in.calls.clear()
        assert_same_bits(g(*there), machine_code(f, *arguments))
        assert [c for c in stand_in.calls if "Launch" in c] == ["cuGraphLaunch"]
        stand_in.kernels.launch = lambda *_: None
        assert functions_of(g, *there) <= 2 * CALL
        del stand_in.kernels.launch
        others = on_device(stand_in, *(2 * x for x in arguments))
        assert_same_bits(g(*others), machine_code(f, *(2 * x for x in arguments)))


def scanned(x):
    """A loop of launches at places that move."""
    return dlvm.scan(lambda c, r: (c * np.float32(0.5) + r, c * r), x[0], x)


def test_graphs_are_given_back(monkeypatch):
    monkeypatch.setattr(graphs, "KEPT", 2)
    stand_in, g, x = StandIn(), dlvm.function(scanned, target="cuda:sm_90"), f32(4, 8)
    stand_in.learn(g.compile(x))
    with using(Driver(stand_in)):
        for there in [on_device(stand_in, x)[0] for _ in range(4)]:
            for _ in range(3):
                y = g(there)
        assert_same_bits(y, machine_code(scanned, x))
        gc.collect()
        assert stand_in.count("cuGraphInstantiateWithFlags") > 2
        assert 0 < len(stand_in.graphs) <= 2
        assert stand_in.streams == {55}


def test_a_driver_without_graphs_launches_one_by_one(caplog):
    stand_in, g, x = StandIn(), dlvm.function(scanned, target="cuda:sm_90"), f32(4, 8)
    stand_in.faults["cuStreamBeginCapture_v2"] = 500
    stand_in.learn(g.compile(x))
    with using(Driver(stand_in)):
        (there,) = on_device(stand_in, x)
        for _ in range(4):
            y = g(there)
        assert_same_bits(y, machine_code(scanned, x))
    assert stand_in.count("cuGraphLaunch") == 0
    assert stand_in.streams == {55}
    assert len(caplog.records) == 1 and "not captured" in caplog.text


def swept(x, y):
    """Loops that are counted inside of one that is not."""

    def sweep(val):
        i, x, y = val
        x = dlvm.fori_loop(0, 3, lambda k, x: dlvm.sin(x) * y[k], x)
        y = dlvm.fori_loop(0, i + 1, lambda k, y: y + np.float32(0.25), y)
        return i + 1, x, y

    return dlvm.while_loop(lambda val: val[2].sum() < 60, sweep, (0, x, y))


@pytest.mark.parametrize("fails", [False, True])
def test_a_counted_loop_inside_another_is_one_launch_when_it_recurs(fails):
    def f(x, y, i):
        found = swept(x, y)
        return (*found, x[i]) if fails else found

    stand_in, g = StandIn(), dlvm.function(f, target="cuda:sm_90")
    x, y, i = f32(6), f32(6), np.array([1, 2])
    stand_in.learn(g.compile(x, y, i))
    with using(Driver(stand_in)):
        there = on_device(stand_in, x, y, i)
        for _ in range(2):
            assert_same_bits(g(*there), machine_code(f, x, y, i))
        assert stand_in.count("cuGraphLaunch") > 4
        stand_in.calls.clear()
        more = on_device(stand_in, 3 * x, y - 1, i)
        assert_same_bits(g(*more), machine_code(f, 3 * x, y - 1, i))
        assert_same_bits(g(*there), machine_code(f, x, y, i))
        if fails:
            with pytest.raises(dlvm.IndexOutOfRange):
                np.asarray(g(*there[:2], i + 9)[0])
            assert_same_bits(g(*there), machine_code(f, x, y, i))


def test_what_the_device_decides_is_not_captured():
    f, arguments = KINDS["loop"]
    stand_in, g = StandIn(), dlvm.function(f, target="cuda:sm_90")
    stand_in.learn(g.compile(*arguments))
    with using(Driver(stand_in)):
        there = on_device(stand_in, *arguments)
        for _ in range(3):
            g(*there)
    assert stand_in.count("cuGraphLaunch") == 0


def test_a_donated_argument_is_as_cheap():
    stand_in, x = StandIn(), f32(40)
    f = dlvm.function(lambda p, x: p - x, target="cuda:sm_90", donate=("p",))
    stand_in.learn(f.compile(x, x))
    with using(Driver(stand_in)):
        p, step = on_device(stand_in, x, 2 * x)

        def steps(count):
            nonlocal p
            for _ in range(count):
                p = f(p, step)

        steps(3)
        assert np.array_equal(np.asarray(p), x - 2 * x - 2 * x - 2 * x)
        quiet(stand_in)
        assert functions_of(steps, 3) <= 3 * CALL
        assert stand_in.count("cuMemcpyDtoD_v2") == 0


def test_a_donated_argument_that_is_given_twice_is_copied():
    stand_in, x = StandIn(), f32(40)
    f = dlvm.function(lambda p, x: p - x, target="cuda:sm_90", donate=("p",))
    stand_in.learn(f.compile(x, x))
    with using(Driver(stand_in)):
        p, step = on_device(stand_in, x, 2 * x)
        p = f(p, step)
        assert np.array_equal(np.asarray(f(p, p)), 0 * x)
        assert np.array_equal(np.asarray(p), x - 2 * x)


def test_a_status_is_written_once():
    stand_in, x, i = StandIn(), f32(40), np.array([1, 2])
    f = dlvm.function(lambda x, i: x[i], target="cuda:sm_90")
    stand_in.learn(f.compile(x, i))
    with using(Driver(stand_in)):
        there = on_device(stand_in, x, i, np.array([1, 77]))
        f(there[0], there[1])
        written = stand_in.count("cuMemcpyHtoD_v2")
        for _ in range(3):
            assert np.array_equal(np.asarray(f(there[0], there[1])), x[i])
        assert stand_in.count("cuMemcpyHtoD_v2") == written
        with pytest.raises(dlvm.UserError, match="77"):
            f(there[0], there[2])
        assert np.array_equal(np.asarray(f(there[0], there[1])), x[i])


def test_other_sizes_have_launches_of_their_own():
    stand_in = StandIn()
    made = compiled(stand_in, lambda x: (x * 2).sum(axis=1), dlvm.spec("f32[N,M]"))
    with using(Driver(stand_in)):
        for shape in ((3, 5), (70, 2), (3, 5), (1, 300), (0, 4)):
            x = f32(*shape)
            assert_same_bits((made(x),), machine_code(lambda x: (x * 2).sum(axis=1), x))


def test_threads_call_one_program_at_once():
    f, arguments = KINDS["gradient"]
    stand_in, one_at_a_time = StandIn(), threading.Lock()
    launch = stand_in.kernels.launch

    def alone(*told):
        with one_at_a_time:
            launch(*told)

    stand_in.kernels.launch = alone
    made = compiled(stand_in, f, *arguments)
    driver, found = Driver(stand_in), {}

    def work(k):
        with using(driver):
            given = [a * np.float32(k) for a in arguments]
            found[k] = [made(*given) for _ in range(3)]

    threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k, results in found.items():
        expected = machine_code(f, *[a * np.float32(k) for a in arguments])
        for result in results:
            assert_same_bits(result, expected)
