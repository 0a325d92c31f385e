"""Object files for WebAssembly made of LLVM text, and Node to run what is made of them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from llvmlite import binding

TRIPLE = "wasm32-unknown-unknown"
FEATURES = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals"


def object_of(text: str, features: str = FEATURES, *, reloc: str = "static") -> bytes:
    """The object file that LLVM writes for a module in its text form."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    module = binding.parse_assembly(f'target triple = "{TRIPLE}"\n{text}', binding.create_context())
    module.verify()
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(
        cpu="generic", features=features, opt=2, reloc=reloc, codemodel="default"
    )
    module.data_layout = str(machine.target_data)
    return machine.emit_object(module)


def node(script: str, *arguments: str) -> Any:
    """What a module of JavaScript prints as JSON."""
    return json.loads(node_prints("--input-type=module", None, "-e", script, "--", *arguments))


def node_prints(first: str, folder: Path | None, *arguments: str) -> str:
    """What Node prints; a test is skipped where there is no Node."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("no node is on PATH: WebAssembly modules were made and not run")
    done = subprocess.run(
        [found, first, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(module: bytes, expression: str, folder: Path) -> Any:
    """The value of an expression of JavaScript in which ``e`` has the exports of a module."""
    (folder / "module.wasm").write_bytes(module)
    return node(
        "import fs from 'fs';"
        "const bytes = fs.readFileSync(process.argv[1]);"
        "if (!WebAssembly.validate(bytes)) throw Error('not valid');"
        "const { instance: { exports: e } } = await WebAssembly.instantiate(bytes, {});"
        f"console.log(JSON.stringify({expression}));",
        str(folder / "module.wasm"),
    )
