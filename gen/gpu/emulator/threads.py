"""A kernel of a PTX module as a module of LLVM: its threads, what they call, and every check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dlvm.base.errors import CompilerError

from .asynchronous import ASYNCHRONOUS
from .coroutines import COROUTINE, DRIVER, make
from .functions import FunctionOfThread, called
from .memory import CHECKS
from .ptx import Function, Instruction, Module, Parameter, SharedArray, parse
from .regions import global_base, shared_base


@dataclass(frozen=True, slots=True)
class Threads:
    """The coroutine of a kernel as the text of a module, and what its PTX says of it.

    ``lanes`` are those of a block, as ``.reqntid`` has them; ``sites`` the instructions at which a
    thread may wait or touch memory, by the number that it notes.
    """

    name: str
    text: str
    lanes: int
    parameters: tuple[Parameter, ...]
    shared: tuple[SharedArray, ...]
    tables: tuple[tuple[str, int, bytes], ...]
    sites: tuple[Instruction, ...]


def threads(text: str, name: str) -> Threads:
    """The threads of the kernel of a name, of those in the text."""
    module = parsed(text)
    kernel = module.functions.get(name)
    if kernel is None or not kernel.entry:
        raise CompilerError(f"the PTX has no entry {name}")
    return _Writing(module, kernel).threads()


@lru_cache(maxsize=8)
def parsed(text: str) -> Module:
    """The module of a text, which holds several kernels."""
    return parse(text)


class _Writing:
    """A kernel on its way to a module of LLVM."""

    def __init__(self, module: Module, kernel: Function) -> None:
        self.module, self.kernel = module, kernel
        self.sites: list[Instruction] = []
        self.shared = (*module.shared, *kernel.shared)
        first = sum(p.align > 0 for p in kernel.parameters)
        listed = enumerate(module.tables.items(), first)
        self.tables = tuple((n, global_base(i), held) for i, (n, (_, held)) in listed)
        self.places = {a.name: shared_base(i, a) for i, a in enumerate(self.shared)}
        self.places |= {n: base for n, base, _ in self.tables}

    def threads(self) -> Threads:
        thread = FunctionOfThread(self.kernel, self.places, self.sites).coroutine()
        helpers = [FunctionOfThread(f, self.places, self.sites).helper() for f in self._called()]
        kernel = self.kernel
        pieces = (
            COROUTINE,
            CHECKS,
            ASYNCHRONOUS,
            *helpers,
            thread,
            DRIVER,
            make(len(kernel.parameters)),
        )
        told = tuple(kernel.parameters), self.shared, self.tables, tuple(self.sites)
        return Threads(kernel.name, "\n".join(pieces), kernel.lanes, *told)

    def _called(self) -> Sequence[Function]:
        """The functions that a kernel calls, and those that they call."""
        found: dict[str, Function] = {}
        left = [self.kernel]
        while left:
            for i in left.pop().instructions():
                if i.opcode.startswith("call"):
                    name = called(i)[1]
                    if name not in self.module.functions:
                        raise CompilerError(f"the PTX calls {name}, which it does not have")
                    if name not in found:
                        found[name] = self.module.functions[name]
                        left.append(found[name])
        return list(found.values())
