"""No pass asks which control operation it has; it asks for the dataflow that the class states."""

from __future__ import annotations

import ast
import sys

import pytest

import dlvm.ops
from dlvm.ir import OPS
from tests.ops.flow.census import sources, switches

TAPE = "a tape is no control flow: it holds no body, and what reads it knows push from pop"
RULE = "a rule of the user: which of its functions is the derivative depends on its direction"
KERNEL = "fusion made it; its family says what memory it overwrites, or what may be cut out"
OWN = "the pass is about this operation: its name says so, and what it writes is one"
WORDS = "another format has a word of its own for each"

ALLOWED: dict[tuple[str, str], str] = {
    ("ad/activity", "Pop"): TAPE,
    ("ad/lanes", "Pop"): TAPE,
    ("ad/lanes", "Push"): TAPE,
    ("ad/linearity", "Pop"): TAPE,
    ("ad/linearity", "Push"): TAPE,
    ("ad/pairs", "Pop"): TAPE,
    ("ad/pairs", "Push"): TAPE,
    ("ad/stacking", "Pop"): TAPE,
    ("ad/stacking", "Push"): TAPE,
    ("gen/program/parallel", "Pop"): TAPE,
    ("gen/program/parallel", "Push"): TAPE,
    ("ad/custom", "CustomJvp"): RULE,
    ("ad/custom", "CustomVjp"): RULE,
    ("ad/linear", "CustomVjp"): RULE,
    ("ad/linearity", "Custom"): RULE,
    ("ad/linearity", "CustomJvp"): RULE,
    ("dlvm/trust/rules", "Custom"): RULE,
    ("gen/program/dense_sections", "Kernel"): KERNEL,
    ("opt/kernels/borders", "Kernel"): KERNEL,
    ("opt/recompute/ordering", "Kernel"): KERNEL,
    ("opt/recompute/recomputing", "Kernel"): KERNEL,
    ("ad/control", "Call"): OWN,
    ("opt/recompute/stretching", "Scan"): OWN,
    **{("dlvm/onnx/exporting/writing", k): WORDS for k in ("Cond", "Scan", "While")},
    ("dlvm/exporting/program", "Call"): WORDS,
    ("opt/regions/inlining", "Call"): OWN,
    ("opt/regions/in_place_inputs", "Scan"): OWN,
    ("opt/regions/scan_inputs", "Scan"): OWN,
    ("opt/regions/unrolling", "Scan"): OWN,
}


def test_every_question_which_control_operation_it_is_has_its_reason_here():
    found = {(name, kind) for name, module, tree in sources() for kind in switches(tree, module)}
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set()


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("isinstance(op, Scan | While)", ["Scan", "While"]),
        ("match op:\n    case Cond():\n        pass", ["Cond"]),
        ("type(op) is ops.Call", ["Call"]),
        ("transform(fn, visit, on=Recompute)", ["Recompute"]),
        ("has(fn, Kernel) or type(op) in (Push, Pop)", ["Kernel", "Pop", "Push"]),
        ("isinstance(op, LOOPS)", ["Scan", "While"]),
        ("assert isinstance(op, Scan)", []),
        ("isinstance(op, Structured | Effect | Fold)", []),
    ],
)
def test_a_switch_is_found_however_it_is_written(source: str, kinds: list[str]):
    module = type(sys)("planted")
    vars(module).update(vars(dlvm.ops), ops=dlvm.ops, LOOPS=(dlvm.ops.While, dlvm.ops.Scan))
    assert sorted(switches(ast.parse(source), module)) == kinds


def test_every_operation_with_bodies_states_what_passes_through_them():
    holding = {name: c for name, c in OPS.items() if c.holds_regions}
    silent = [name for name, c in holding.items() if c.dataflow is None]
    assert silent == ["fold"]  # its region combines two scalars within one kernel
    assert {"cond", "while", "scan", "checkpoint", "recompute", "kernel"} <= holding.keys()
