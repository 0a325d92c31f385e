"""Each command does what its page says, and says what is wrong without a traceback."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import dlvm
from dlvm.base.errors import CompilerError
from dlvm.cli import INTERRUPTED, NO_READER, OURS, USAGE, WRONG, main
from dlvm.gen import measured
from tests.test_house import ROOT

SCRIPT = """
import dlvm, numpy as np

scale = np.array([2, 3, 4], np.float32)

def loss(params, x):
    return (dlvm.tanh(x @ params["w"]) * scale).sum()

@dlvm.function(static=("mode",))
def chosen(x, mode):
    return x + 1 if mode == 1 else x * 2

class Inner:
    @staticmethod
    def double(x):
        return x * 2

def wrong(x):
    return x + len(3)

def missing(x):
    return dlvm.relu(x)

gradient = dlvm.grad(loss)
number = 3
"""
MODEL = ("{'w': 'f32[5,3]'}", "f32[B,5]")
EXPONENTIAL = """dlvm 1
func @f(%x: f32[3]) -> f32[3] {
  %0 = exp %x : f32[3]
  return %0
}
"""


@pytest.fixture(autouse=True)
def script(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(SCRIPT)
    (tmp_path / "f.dlvm").write_text(EXPONENTIAL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path / "cache"))
    yield tmp_path
    sys.modules.pop("model", None)


@pytest.fixture
def run(capsys):
    def run(*argv, code=0):
        found = main(list(map(str, argv)))
        out, err = capsys.readouterr()
        assert found == code, out + err
        assert "Traceback" not in err
        return (err or out) if code else out

    return run


def dlvm_command(*argv, **options):
    command = [sys.executable, "-m", "dlvm", *argv]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=env, **options)


# -- naming programs and arguments -----------------------------------------------------------------


def test_a_program_is_shown_at_every_stop(run):
    for stage in dlvm.compile.STAGES:
        assert run("show", "model.py:loss", *MODEL, "--stage", stage)
    traced = run("show", "model.py:loss", *MODEL)
    assert dlvm.parse(traced).main.name == "loss"
    assert traced in run("show", "model.py:loss", *MODEL, "--stage", "all")


def test_arguments_may_stand_around_options_and_by_name(run):
    plain = run("show", "model.py:loss", *MODEL)
    assert run("show", "--stage", "traced", "model.py:loss", *MODEL) == plain
    assert run("show", "model.py:loss", MODEL[0], "--stage", "traced", MODEL[1]) == plain
    assert run("show", "model.py:loss", f"x={MODEL[1]}", f"params={MODEL[0]}") == plain


def test_literals_are_values(run):
    assert "mul" in run("show", "model.py:chosen", "f32[3]", "2")
    assert "add" in run("show", "model.py:chosen", "f32[3]", "mode=1")
    assert "mul" in run("show", "model.py:Inner.double", "f32[3]")


def test_ir_text_is_read_from_files_and_pipes():
    assert dlvm_command("show", "f.dlvm", check=True).stdout == EXPONENTIAL
    assert dlvm_command("show", "-", input=EXPONENTIAL, check=True).stdout == EXPONENTIAL


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("show", "absent.py:f"), "there is no file absent.py"),
        (("show", "absent"), "there is no file absent"),
        (("show", "model.py:lost"), "it defines loss"),
        (("show", "model.py:number"), "model.py:number to be a function, found int"),
        (("show", "f.dlvm", "f32[3]"), "leave the arguments out"),
        (("show", "model.py:loss", "f32[3"), "the closing ] is missing"),
        (("show", "model.py:loss", "f32[3]"), "x"),
        (("run", "f.dlvm", "absent.npy"), "absent.npy"),
        (("run", "model.py:loss", *MODEL, "--size", "B"), "--size B=64"),
        (("opt", "f.dlvm", "--passes", "improve"), "no pass 'improve'"),
        (("opt", "f.dlvm", "--print-after", "improve"), "no pass 'improve'"),
        (("show", "broken.py:f"), "broken.py:2"),
        (("show", "raises.py:f"), "ZeroDivisionError"),
        (("show", "model.py"), "write model.py:function"),
        (("show", "model.py:loss", "x=blah[3]"), "the argument 'x=blah[3]' can't be read"),
        (("run", "model.py:wrong", "f32[3]"), "no len()\n  --> model.py"),
        (("run", "model.py:missing", "f32[3]"), "help: write dlvm.nn.relu"),
    ],
)
def test_mistakes_are_explained(run, script, argv, said):
    (script / "broken.py").write_text("x = 1\ndef f(:\n")
    (script / "raises.py").write_text("def f(x): return x\ny = 1 / 0\n")
    told = run(*argv, code=WRONG)
    assert said in told and "main(" not in told and "dlvm repro" not in told


def test_arguments_by_name_reach_their_own_parameters(run):
    found = json.loads(
        run("check", "model.py:loss", f"x={MODEL[1]}", f"params={MODEL[0]}", "--json")
    )
    assert [f["passed"] for f in found] == [True, True, True]


# -- models of ONNX --------------------------------------------------------------------------------


@pytest.fixture
def model(script):
    def shifted(x, weight):
        return {"y": dlvm.tanh(x @ np.ones((5, 2), np.float32)) + weight}

    kinds = dlvm.spec("f32[batch,5]"), dlvm.spec("f32[2]")
    (script / "model.onnx").write_bytes(dlvm.export(shifted, *kinds, format="onnx"))
    x = np.arange(15, dtype=np.float32).reshape(3, 5) / 10
    np.save(script / "x.npy", x)
    return np.tanh(x @ np.ones((5, 2), np.float32)) + np.float32([1, 2])


def test_a_model_is_shown_and_run_with_arrays_by_name(run, model):
    traced = run("show", "model.onnx")
    assert [str(p.type) for p in dlvm.parse(traced).main.params] == ["f32[batch,5]", "f32[2]"]
    found = json.loads(run("run", "model.onnx", "x=x.npy", "weight=[1, 2]", "--json"))
    assert [r["name"] for r in found] == [f"[{dlvm.onnx.load('model.onnx').outputs[0].name!r}]"]
    np.testing.assert_allclose(found[0]["values"], model, rtol=1e-5)
    assert found == json.loads(run("run", "model.onnx", "x.npy", "[1, 2]", "--json"))


def test_inputs_of_a_model_that_are_left_out_are_drawn(run, model):
    drawn = json.loads(run("run", "model.onnx", "--size", "batch=7", "--json"))
    assert drawn[0]["type"] == "float32[7, 2]"
    assert json.loads(run("check", "model.onnx", "--json"))[2]["passed"]
    assert "stablehlo.tanh" in run("export", "model.onnx", "--to", "stablehlo")
    assert "f32[9,5]" in run("show", "model.onnx", "x=f32[9,5]")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("z=x.npy",), "no input 'z'"),
        (("x.npy", "x=x.npy"), "2 inputs, found 2 arguments"),
        (("1", "2", "3"), "2 inputs, found 3 arguments"),
        (("x=i32[3,5]",), "write x=f32[batch,5]"),
        (("x=f32[5]",), "write x=f32[batch,5]"),
        (("x=[1, 2]",), "expected the input 'x' of type f32[batch,5]"),
    ],
)
def test_arguments_that_a_model_does_not_take_are_explained(run, model, arguments, said):
    assert said in run("run", "model.onnx", *arguments, code=WRONG)
    assert "absent.onnx" in run("show", "absent.onnx", code=WRONG)


def test_mistakes_on_the_command_line_are_their_own_code(run, capsys):
    for argv in ((), ("frobnicate",), ("show",), ("cache", "eat"), ("doctor", "now")):
        assert "usage" in run(*argv, code=USAGE)
    assert "1.0.0" not in run("--version")


def test_other_ends_have_codes_of_their_own(monkeypatch, run):
    def fail(error):
        def road(*_):
            raise error

        return road

    for error, code in ((CompilerError("x"), OURS), (KeyboardInterrupt(), INTERRUPTED)):
        monkeypatch.setattr("dlvm.cli.show.road_named", fail(error))
        run("show", "f.dlvm", code=code)


def test_a_reader_that_goes_away_is_no_error():
    command = f"{sys.executable} -m dlvm list ops; echo $? >&2"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    shell = f"({command}) | true"
    done = subprocess.run(shell, shell=True, capture_output=True, text=True, env=env)
    assert done.stderr.split() in ([str(NO_READER)], ["0"])  # 0 where all of it fit in the pipe


def test_a_full_disk_is_said():
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "dlvm", "list", "ops"]
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=env)
    assert done.returncode != 0
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


# -- running ---------------------------------------------------------------------------------------


def test_run_computes_what_the_function_does(run, script):
    w, x = np.full((5, 3), 0.25, np.float32), np.full((2, 5), 0.5, np.float32)
    np.savez("params.npz", w=w)
    np.save("x.npy", x)
    (found,) = json.loads(run("run", "model.py:loss", "params.npz", "x.npy", "--json"))
    assert found["values"] == pytest.approx(2 * 9 * np.tanh(0.625), rel=1e-6)
    run("run", "model.py:gradient", "params.npz", "x.npy", "--out", "g.npz")
    (g,) = np.load("g.npz").values()
    slope = 2 * 0.5 * (1 - np.tanh(0.625) ** 2) * np.array([2, 3, 4])
    np.testing.assert_allclose(g, np.tile(slope, (5, 1)), rtol=1e-5)
    run("run", "f.dlvm", "--out", "e.npy")
    assert np.load("e.npy").shape == (3,)


def test_random_arrays_follow_seed_and_sizes(run):
    def drawn(*options):
        return run("run", "model.py:gradient", *MODEL, *options)

    assert drawn("--seed", 1) == drawn("--seed", 1) != drawn("--seed", 2)
    assert drawn("--size", "B=9") != drawn("--size", "B=8")


def test_results_of_a_tree_are_named_by_their_place(run):
    found = json.loads(run("run", "model.py:gradient", *MODEL, "--json"))
    assert [(f["name"], f["type"]) for f in found] == [("['w']", "float32[5, 3]")]


# -- passes ----------------------------------------------------------------------------------------


def test_opt_runs_passes_and_shows_the_way(run, capsys):
    assert "kernel" in run("opt", "model.py:gradient", *MODEL)
    argv = ["opt", "model.py:gradient", *MODEL, "--passes", "inline_calls,simplify,drop"]
    assert main([*argv, "--print-after", "simplify", "--time", "--verify-each"]) == 0
    out, err = capsys.readouterr()
    dlvm.parse(out).verify()
    assert err.count("// ---- after") == 1
    assert "// ---- after simplify\ndlvm 1" in err
    assert len([line for line in err.splitlines() if line.endswith(" ops")]) == 3
    assert main([*argv, "--print-after", "all"]) == 0
    assert capsys.readouterr().err.count("// ---- after") == 3


def test_what_opt_prints_computes_the_same(run, script):
    (script / "g.dlvm").write_text(run("opt", "model.py:gradient", *MODEL))
    (traced,) = json.loads(run("run", "model.py:gradient", *MODEL, "--json"))
    (script / "plain.dlvm").write_text(run("show", "model.py:gradient", *MODEL))
    (a,) = json.loads(run("run", "g.dlvm", "--json"))
    (b,) = json.loads(run("run", "plain.dlvm", "--json"))
    np.testing.assert_allclose(a["values"], b["values"], rtol=1e-5)
    assert np.shape(traced["values"]) == np.shape(a["values"])


def test_diff_shows_what_each_pass_changed(run):
    found = run("diff", "model.py:gradient", *MODEL, "--passes", "inline_calls,hoist")
    assert "==== differentiate" in found
    assert "-adjoint @adjoint_loss" in found
    assert "==== hoist: no change" in found
    assert "\033[" not in found


class Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], ""

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_endtag(self, tag):
        while self.open.pop() != tag:
            pass

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_and_needs_nothing_else(run, script):
    run("diff", "model.py:gradient", *MODEL, "--html", "out.html")
    text = (script / "out.html").read_text()
    tags = Tags()
    tags.feed(text)
    count = [tag for tag, _ in tags.seen]
    assert count.count("section") == count.count("button") > 15
    assert not any({"src", "href"} & set(attrs) for _, attrs in tags.seen)
    assert "http" not in text
    assert "func @grad_loss(%params_w: f32[5,3]" in tags.text
    assert any(attrs.get("class") == "new" for _, attrs in tags.seen)


# -- checks ----------------------------------------------------------------------------------------


def test_check_says_what_holds(run):
    found = json.loads(run("check", "model.py:loss", *MODEL, "--json"))
    assert [(f["what"], f["passed"]) for f in found] == [
        ("passes", True),
        ("machine code", True),
        ("gradient", True),
    ]
    assert json.loads(run("check", "f.dlvm", "--json"))[2]["passed"] is True


def test_check_finds_a_wrong_gradient(run, monkeypatch):
    for factor in (-1.0, 2.0, 1.001):
        adjoint = dlvm.ops.Tanh.adjoint
        wrong = lambda op, dy, a=adjoint, k=factor: tuple(g * k for g in a(op, dy))  # noqa: E731
        with monkeypatch.context() as patch:
            patch.setattr(dlvm.ops.Tanh, "adjoint", wrong)
            found = json.loads(run("check", "model.py:loss", *MODEL, "--json", code=WRONG))
        assert [f["passed"] for f in found] == [True, True, False], factor


def test_check_finds_wrong_machine_code(monkeypatch, capsys):
    scalar = dlvm.ops.Exp.scalar
    wrong = lambda op, s, x: s.binary("mul", scalar(op, s, x), s.constant(1.001, s.dtype(x)))  # noqa: E731
    monkeypatch.setattr(dlvm.ops.Exp, "scalar", wrong)
    monkeypatch.setenv("DLVM_CACHE", "0")
    assert main(["check", "f.dlvm", "--json"]) == WRONG
    assert [f["passed"] for f in json.loads(capsys.readouterr().out)] == [True, False, True]


def test_check_says_nothing_where_nothing_can_be_said(run, script):
    (script / "n.dlvm").write_text(EXPONENTIAL.replace("f32", "i64").replace("exp %x", "neg %x"))
    assert [f["passed"] for f in json.loads(run("check", "n.dlvm", "--json"))] == [True, True, None]
    (script / "kink.dlvm").write_text(EXPONENTIAL.replace("exp %x", "abs %x"))
    np.save(script / "near.npy", np.full(3, 3e-4, np.float32))
    found = json.loads(run("check", "kink.dlvm", "near.npy", "--json", code=WRONG))
    assert [f["passed"] for f in found] == [True, True, None]
    assert "inconclusive for x" in found[2]["said"]
    run("check", "kink.dlvm", "near.npy", "--allow-skipped")
    np.save(script / "short.npy", np.zeros(2, np.float32))
    found = json.loads(run("check", "kink.dlvm", "short.npy", "--json", code=WRONG))
    assert found[1]["passed"] is False and "f32[3]" in found[1]["said"]


def test_check_takes_gradients_of_programs_that_hold_strings_and_large_constants(run, script):
    (script / "c.py").write_text(
        "import dlvm, numpy as np\nW = np.linspace(0, 1, 999, dtype=np.float32)\n"
        "@dlvm.function\ndef f(x):\n    dlvm.tap(x, 'x')\n"
        "    return dlvm.tanh(x * W.copy()).sum()\n"
    )
    found = json.loads(run("check", "c.py:f", "f32[999]", "--json"))
    assert [f["passed"] for f in found] == [True, True, True]


def test_bench_measures(run):
    found = json.loads(run("bench", "model.py:loss", *MODEL, "--seconds", "0.01", "--json"))
    assert 0 < found["seconds"] < found["numpy_seconds"]
    assert found["flops"] > 0 and found["bytes"] > 0 and found["copy_seconds"] > 0
    assert "FLOP/s" in run("bench", "f.dlvm", "--seconds", "0.01")


# -- the cache, the machine ------------------------------------------------------------------------


def test_the_cache_is_shown_verified_and_cleared(run, script):
    assert run("cache", "where") == f"folder: {script / 'cache' / 'v1'}\n"
    assert json.loads(run("cache", "--json"))["files"] == 0
    run("run", "f.dlvm")
    listed = json.loads(run("cache", "list", "--json"))
    assert listed
    assert json.loads(run("cache", "verify", "--json"))["damaged"] == []
    file = script / "cache" / "v1" / listed[0]["key"]
    file.write_bytes(file.read_bytes()[:-1])
    assert (
        "damaged files in the cache: 1"
        in json.loads(run("doctor", "--json", code=WRONG))["problems"][0]
    )
    assert "damaged files removed" in run("cache", "verify", code=WRONG)
    assert "sound" in run("cache", "verify")
    assert json.loads(run("cache", "clear", "--json"))["removed"] >= len(listed) - 1
    assert json.loads(run("cache", "size", "--json"))["bytes"] == 0


def test_a_cache_that_is_off_is_said(run, monkeypatch):
    monkeypatch.setenv("DLVM_CACHE", "0")
    assert "unset DLVM_CACHE" in run("cache", code=WRONG)
    assert json.loads(run("doctor", "--json"))["cache"] == "off"


def test_doctor_measures_the_machine_keeps_what_it_finds_and_forgets_it(run, monkeypatch, tmp_path):
    monkeypatch.setenv("DLVM_CACHE", "1")
    monkeypatch.setenv("DLVM_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(measured, "SECONDS", 1e-4)
    monkeypatch.setattr(measured, "FAR", 1 << 20)
    assert json.loads(run("doctor", "--json"))["speed"].startswith("built-in")
    assert json.loads(run("doctor", "--json", "--measure"))["speed"] == "measured"
    assert json.loads(run("doctor", "--json"))["speed"] == "measured"
    assert json.loads(run("doctor", "--json", "--forget"))["speed"].startswith("built-in")
    monkeypatch.setenv("DLVM_CACHE", "0")
    assert (
        "nothing is kept"
        in json.loads(run("doctor", "--json", "--measure", code=WRONG))["problems"][0]
    )


def test_doctor_tells_what_it_runs_on_and_what_is_wrong(run, script, monkeypatch, capsys):
    found = json.loads(run("doctor", "--json"))
    assert found["problems"] == []
    assert found["numpy"] == np.__version__
    assert found["cores"] >= 1 and "triple" in found and found["DLVM_CACHE_DIR"]
    kept = script / "cache" / "v1"
    kept.mkdir(parents=True, exist_ok=True)  # the trial may have its program from an earlier one
    kept.chmod(0o777)
    assert main(["doctor", "--json"]) == WRONG
    assert "others may write" in json.loads(capsys.readouterr().out)["problems"][0]


def test_lists_name_what_there_is(run):
    for what, name in (("ops", "tanh"), ("passes", "differentiate")):
        assert json.loads(run("list", what, "--json"))[name]
    assert "DLVM_CACHE" in run("list", "variables")


def test_rules_are_listed_explained_and_checked(run, capsys):
    assert json.loads(run("rules", "--json"))["neg.negate_twice"].startswith("exact")
    said = run("rules", "sum_of_product")
    assert "rounding, where cheaper" in said and "matmul" in said.split("// after")[0]
    assert "matmul" not in said.split("// after")[1].split("// before")[0]
    checked = run("rules", "--check", "--rounds", "2")
    assert "0 failures" in checked and "checked 2 times each" in checked
    assert re.search(r"matmul.cheapest_order +proven by form at open sizes", checked)
    assert re.search(r"neg.negate_twice +only drawn", checked)
    assert main(["rules", "sum_of_produce"]) == WRONG
    assert "no rule" in capsys.readouterr().err


def test_rules_of_linear_algebra_are_known_in_a_process_of_their_own():
    """Without it ``dlvm rules`` listed those of the operations alone."""
    command = [sys.executable, "-m", "dlvm", "rules", "--json"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "sum.sum_of_product" in json.loads(listed)


def test_show_prints_laws_and_properties(run, tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import dlvm\n\n\n@dlvm.function\ndef f(a, b, v):\n    return (a @ b) @ v, (a @ a.T).T\n"
    )
    types = ("f64[64,64]", "f64[64,64]", "f64[64]")
    laws = run("show", "--laws", f"{file}:f", *types)
    assert "cheapest_order at model.py:6, saves 516,096 flops" in laws
    assert "transpose_of_symmetric" in laws and 'dlvm.assume(b, "diagonal") would save' in laws
    assert "psd, symmetric" in run("show", "--show-properties", f"{file}:f", *types)


def test_aot_writes_files_for_another_processor(run, script):
    given = ("model.py:gradient", "{'w': 'f32[5,3]'}", "f32[4,5]")
    said = run("aot", *given, "--target", "aarch64-linux-gnu", "--out", "built", "--name", "slope")
    written = {p.name for p in (script / "built").iterdir()}
    assert written == {f"slope.{e}" for e in ("o", "a", "h", "weights.bin", "json")}
    assert all(name in said for name in written) and "scratch" in said
    found = json.loads(run("aot", *given, "--target", "wasm32", "--page", "--json", "--out", "web"))
    assert found["target"] == "wasm32" and (script / "web" / f"{found['name']}.html").exists()
    assert "a page runs WebAssembly" in run("aot", *given, "--page", code=WRONG)
