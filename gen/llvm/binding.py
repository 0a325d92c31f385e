"""The one place that talks to LLVM: text in, machine code or an address out.

LLVM aborts the process on code it can't select, so text is always verified first. A module has
types, constants and names of its own, which go with it. What runs passes is made once for a target,
as the library never frees what watches it.
"""

from __future__ import annotations

from functools import cache

import llvmlite
from llvmlite import binding

from dlvm.base.errors import CompilerError
from dlvm.base.locks import Order, held_at_fork
from dlvm.target import Target

from . import half_conversions as halves
from . import substitutes
from .cache import remembered, source
from .disk import digest

_KNOWN_TO_LLVM: list[Library] = []
"""Code whose addresses LLVM was told, which stays."""
LOCAL = "= alloca"
"""What the passes are for: arrays of a function's own, which they turn into registers.

Those too that functions give one another which are written apart and marked to be inlined.
"""


@cache
def machine(target: Target, *, jit: bool = True, level: int = 2) -> binding.TargetMachine:
    """LLVM's own description of a target; code for files must not depend on its address."""
    return _machine(target, jit=jit, level=level)


def _machine(target: Target, *, jit: bool, level: int = 2) -> binding.TargetMachine:
    _initialize()
    if target.triple.startswith("nvptx"):
        jit, reloc, model = False, "default", "default"
    else:
        reloc, model = ("default", "jitdefault") if jit else ("pic", "default")
    return binding.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc=reloc, codemodel=model, jit=jit
    )


@cache
def _initialize() -> None:
    held_at_fork(binding.ffi.lib._lock, Order.LLVM)  # pyright: ignore[reportPrivateUsage]
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmparser()


def parse(text: str, context: binding.ContextRef | None = None) -> binding.ModuleRef:
    """Verified LLVM code; a mistake in it is ours."""
    try:
        module = binding.parse_assembly(text, context)
        module.verify()
    except RuntimeError as error:
        raise CompilerError(f"LLVM refuses the code that was emitted: {error}") from None
    return module


def prepare(text: str, target: Target) -> binding.ModuleRef:
    """Code ready for selection: local arrays that are registers have become registers."""
    module = parse(f'target triple = "{target.triple}"\n{text}', binding.create_context())
    module.data_layout = str(machine(target).target_data)
    if LOCAL in text:
        passes, builder = _passes(target)
        passes.run(module, builder)
    return module


def coroutine_code(text: str, target: Target) -> bytes:
    """The machine code of a module with coroutines, as an object file for this process.

    Local arrays become registers first: LLVM splits coroutines wrongly that declare several. LLVM
    does nothing else to be fast: most such code runs once, and takes a sixth of the time to make.
    """
    module = prepare(text, target)
    tuning = binding.create_pipeline_tuning_options(speed_level=0)
    builder = binding.create_pass_builder(machine(target), tuning)
    builder.getModulePassManager().run(module, builder)
    return machine(target, level=0).emit_object(module)


@cache
def _passes(target: Target) -> tuple[binding.ModulePassManager, binding.PassBuilder]:
    """The passes, and what they ask about a target."""
    tuning = binding.create_pipeline_tuning_options(speed_level=1)
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    return passes, binding.create_pass_builder(machine(target), tuning)


def assembly(text: str, target: Target) -> str:
    """The machine code of a module, as text; that for a GPU is made once for all processes.

    LLVM takes the name of an intrinsic that it does not know for a function of somebody else's.
    """

    def make() -> bytes:
        found = machine(target).emit_assembly(prepare(text, target))
        if ".extern .func" in found:
            raise CompilerError(f"PTX calls a function that is not there:\n{found}")
        return found.encode()

    key = _key("assembly", text, target) if target.capability else None
    return remembered(key, make).decode()


def _key(kind: str, text: str, target: Target, *more: str) -> str | None:
    """What code that is made of a text depends on; None where our own files are not there."""
    recipe = _recipe()
    facts = text, target.triple, target.cpu, target.features, *more, version()
    return None if recipe is None else digest(kind, recipe, *facts)


def version() -> str:
    """That of the library, which brings LLVM with it."""
    return llvmlite.__version__


def _recipe() -> bytes | None:
    """The files that say how code is made of text, or None where they are not there."""
    files = ("binding.py", "substitutes.py", "half_conversions.py", "undefined.py")
    texts = [source("dlvm.gen.llvm", file) for file in files]
    return None if None in texts else b"".join(text or b"" for text in texts)


def object_code(
    text: str, target: Target, *, jit: bool = True, level: int = 2, kept: bool = True
) -> bytes:
    """The machine code of a module, as an object file; made once for all processes if ``kept``.

    Its text may hold no address of this process. For a file LLVM calls no function for what a
    processor lacks, as ``substitutes`` brings it along.
    """
    key = _key("object", text, target, str(jit), str(level)) if kept else None

    def make() -> bytes:
        found = machine(target, jit=jit, level=level).emit_object(prepare(text, target))
        names = set[str]() if jit else substitutes.missing(found, target.triple)
        if not names:
            return found
        more = f"{text}\n{substitutes.module(names, target.triple)}"
        return machine(target, jit=jit, level=level).emit_object(prepare(more, target))

    return remembered(key, make)


class Library:
    """Machine code in this process's memory, for as long as the object lives.

    The object files may call one another's external functions.
    """

    def __init__(self, code: bytes, target: Target, *others: bytes) -> None:
        empty = parse(f'target triple = "{target.triple}"')
        own = _machine(target, jit=True)  # an engine deletes its machine when it goes
        self._engine = binding.create_mcjit_compiler(empty, own)
        files = (code, *others)
        if any(name.encode() in file for name in halves.OWN for file in files):
            _convert_halves(target)
        for file in files:
            self._engine.add_object_file(binding.ObjectFileRef.from_data(file))
        self._engine.finalize_object()

    def data(self, name: str) -> int:
        """Where an external variable lies."""
        return self._engine.get_global_value_address(name)

    def address(self, name: str) -> int:
        """Where an external function starts."""
        found = self._engine.get_function_address(name)
        if not found:
            raise CompilerError(f"no function {name} in the compiled module")
        return found


def _convert_halves(target: Target) -> None:
    """Code that asks for conversions finds ours; others of that name may take whole numbers."""
    if not _KNOWN_TO_LLVM:
        own = Library(object_code(halves.FUNCTIONS, target), target)
        _KNOWN_TO_LLVM.append(own)
        for name, ours in halves.OWN.items():
            binding.add_symbol(name, own.address(ours))
