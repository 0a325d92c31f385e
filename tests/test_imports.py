"""``import dlvm`` makes little: what compiles, and what others provide, comes when it is used."""

import subprocess
import sys

from .test_house import ROOT

LATER = {"dlvm.ad", "dlvm.opt", "dlvm.gen", "llvmlite", "ml_dtypes", "optree", "platformdirs"}
LATER |= {
    "dlvm.nn",
    "dlvm.dsl.state.captures",
    "dlvm.dsl.derive.derivatives",
    "dlvm.dsl.derive.linear",
}
LATER |= {"dlvm.dsl.flow.loops", "dlvm.dsl.call.programs", "logging", "numpy.typing"}
LATER |= {"statistics", "sympy", "hypothesis", "rich", "argparse", "pycuda", "dlvm.cli"}
FIRST = "import sys, dlvm; found = set(sys.modules); "


def python(program: str) -> str:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout


def test_what_is_not_needed_yet_is_not_imported():
    assert set(python(FIRST + "print(*found)").split()) & LATER == set()


def test_the_help_of_the_command_imports_neither_compiler_nor_readers():
    """It took twice as long as ``import dlvm`` on top of that."""
    program = FIRST + "from dlvm.cli import main; main(['--help']); print('modules:', *sys.modules)"
    made = set(python(program).rpartition("modules:")[2].split())
    rooms = {".".join(m.split(".")[:2]) for m in made if m.startswith("dlvm.")}
    assert rooms & {"dlvm.ad", "dlvm.opt", "dlvm.gen", "dlvm.onnx", "dlvm.exporting"} == set()
    assert {m for m in made if m.startswith(("dlvm.trust.reducing", "dlvm.testing."))} == set()


def test_a_compile_without_brain_floats_does_not_import_them():
    """The other package takes as long as the rest of a warm start."""
    program = "import numpy as np; f = lambda x: dlvm.tanh(x @ x * 2.0 + 1).sum(); "
    program += "dlvm.function(dlvm.grad(f)).compile(np.ones((3, 3), np.float32)); "
    assert python(f"import sys, dlvm; {program}print('ml_dtypes' in sys.modules)") == "False\n"


def test_half_precision_of_another_package_is_found_when_it_is_met():
    print_them = "print(dtype_of(np.dtype(m.bfloat16)), BF16.numpy == m.bfloat16, BF16.numpy)"
    program = "from dlvm.ir.types import BF16, dtype_of; import numpy as np, ml_dtypes as m; "
    assert python(program + print_them) == "bf16 True bfloat16\n"


def test_half_precision_is_known_by_name_before_anything_was_imported():
    for first in ("dlvm.random.normal(dlvm.random.key(0), (3,), name)", "dlvm.zeros(3, name)"):
        assert python(f"import dlvm; name = 'bfloat16'; print({first}.dtype)") == "bfloat16\n"


def test_functions_of_trees_are_found_behind_operations_of_their_names():
    """An operation that was used first took the place of ``dlvm.stop_gradient``."""
    code = "import dlvm; from dlvm.dsl.words.namespace import xp; xp.stop_gradient"
    assert python(f"{code}; print(dlvm.stop_gradient(dict(a=1))['a'])") == "1\n"
