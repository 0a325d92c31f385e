"""LLVM in a process of its own: modules in, one object or its assembly out.

LLVM ends the process where it can't select code, so nothing of ours should be in it. It reads a
job as JSON on its standard input and writes machine code to its standard output; what LLVM says of
the stack that each function takes goes to standard error. Only llvmlite is imported.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from llvmlite import binding


def run(job: dict[str, Any]) -> bytes:
    """All modules as one, everything but the exports hidden, as machine code."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    machine = binding.Target.from_triple(job["triple"]).create_target_machine(
        cpu=job["cpu"], features=job["features"], opt=2, reloc=job["reloc"], codemodel="default"
    )
    context = binding.create_context()
    head = f'target datalayout = "{machine.target_data}"\ntarget triple = "{job["triple"]}"\n'
    modules = [binding.parse_assembly(head + text, context) for text in job["modules"]]
    whole = modules[0]
    for other in modules[1:]:
        whole.link_in(other)
    _expose(whole, job["exports"], job["prefix"])
    whole.verify()
    passes, builder = _passes(machine, job["small"])
    passes.run(whole, builder)
    if job["assembly"]:
        return machine.emit_assembly(whole).encode()
    return machine.emit_object(whole)


def _expose(whole: binding.ModuleRef, exports: list[str], prefix: str) -> None:
    """Hide all functions but the exports, which get the names that programs call them by."""
    functions = {f.name: f for f in whole.functions if not f.is_declaration}
    called = {name: functions.pop(prefix + name) for name in exports if prefix + name in functions}
    for value in (*functions.values(), *whole.global_variables):
        if value.name in called:
            value.name = f"own.{value.name}"
    for name, function in functions.items():
        if name not in exports or name in called:
            function.linkage = "internal"
    for name, function in called.items():
        function.name = name


def _passes(
    machine: binding.TargetMachine, small: bool
) -> tuple[binding.ModulePassManager, binding.PassBuilder]:
    """All that LLVM has where code must be small; else what turns local arrays into registers."""
    tuning = binding.create_pipeline_tuning_options(speed_level=2 if small else 1)
    builder = binding.create_pass_builder(machine, tuning)
    if small:
        return builder.getModulePassManager(), builder
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_global_dead_code_eliminate_pass()
    return passes, builder


if __name__ == "__main__":
    sys.stdout.buffer.write(run(json.load(sys.stdin)))
