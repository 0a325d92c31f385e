"""The text form of the loop level: what ``str(kernel)`` shows."""

from __future__ import annotations

from collections import defaultdict

from . import statements


def kernel_text(kernel: statements.LoopKernel) -> str:
    """The whole kernel; scalars are numbered in the order in which they are computed."""
    buffers = ", ".join(f"%{b.name}: {b.role} {b.type}" for b in kernel.buffers)
    symbols = f" symbols ({', '.join(kernel.symbols)})" if kernel.symbols else ""
    page = _Page()
    page.body(kernel.body, "  ")
    return "\n".join([f"kernel @{kernel.name}({buffers}){symbols} {{", *page.lines, "}"])


def line_of(kernel: statements.LoopKernel, s: statements.Statement) -> str:
    """One statement of a kernel, with its scalars numbered as in the kernel's text."""
    page = _Page()
    page.body(kernel.body, "")
    return page.line(s)


class _Page:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: defaultdict[statements.Scalar, str] = defaultdict(lambda: "?")

    def body(self, body: statements.Body, indent: str) -> None:
        for statement in body:
            self.statement(statement, indent)

    def statement(self, s: statements.Statement, indent: str) -> None:
        if isinstance(s, statements.Nested):
            self.lines.append(f"{indent}{self.opening(s)} {{")
            self.body(s.body, indent + "  ")
            self.lines.append(f"{indent}}}")
        else:
            self.lines.append(f"{indent}{self.line(s)}")

    def opening(self, s: statements.Nested) -> str:
        if isinstance(s, statements.Fill):
            spot = "at ({}, {}) of ({}, {}) step {}".format(*s.spot)
            return f"fill %{s.piece.name}: {s.piece.dtype} by {s.unit} {spot}"
        if isinstance(s, statements.Loop):
            limit = "" if s.limit is None else f" limit {s.limit}"
            return f"{s.kind} {s.var} < {s.extent}{limit}{_grain(s)}"
        tile = f"%{s.tile.name}: {s.tile.dtype}[{s.tile.size // s.width},{s.width}]"
        spot = "at ({}, {}) of ({}, {})".format(*s.spot)
        sizes = f"m={s.m} n={s.n} k={s.k} chunk={s.chunk}"
        return f"product {_operand(s.x)} by {_operand(s.y)} {sizes} {tile} {spot}"

    def line(self, s: statements.Statement) -> str:
        match s:
            case statements.Let(scalar):
                name = self.names[scalar] = f"%{len(self.names)}"
                return f"{name} = {self.right(scalar)} : {scalar.dtype}"
            case statements.Define(name, dim, high, where):
                return f"{name} = {dim} <= {high}{_where(where)}"
            case statements.Bind(name, scalar, high):
                return f"{name} = index {self.names[scalar]} <= {high}"
            case statements.Store(memory, offset, scalar, where):
                return f"store %{memory.name}[{offset}] = {self.names[scalar]}{_where(where)}"
            case statements.Check(ok, index, size, code, where):
                found = f"{self.names[ok]} index {self.names[index]} size {size}"
                return f"check {found} code {code}{_where(where)}"
            case statements.Local(name, dtype, size, shared):
                return f"{'shared' if shared else 'local'} %{name}: {dtype}[{size}]"
            case statements.Sort():
                return _sort(s)
            case statements.Barrier():
                return "barrier"
            case statements.Multiply():
                x = f"%{s.x.name}[{s.x_offset}] step {s.x_step}"
                y = f"%{s.y.name}[{s.y_offset}] step {s.y_step}"
                return f"{s.instruction} %{s.total.name}[{s.at}] += {x} by {y}"
            case _:
                return self.opening(s)

    def right(self, scalar: statements.Scalar) -> str:
        match scalar:
            case statements.Number(_, value):
                return f"constant {value}"
            case statements.Size(dim):
                return f"size {dim}"
            case statements.Inside(where):
                return f"inside ({', '.join(map(str, where))})"
            case statements.Load(_, memory, offset, where):
                return f"load %{memory.name}[{offset}]{_where(where)}"
            case statements.Search(_, memory, offset, count, key, right, where):
                among = f"%{memory.name}[{offset}] count {count} key {self.names[key]}"
                return f"search {among}{' right' if right else ''}{_where(where)}"
            case statements.Word(_, word, operands):
                return f"{word} {', '.join(self.names[o] for o in operands)}"
            case _:
                return f"{scalar.dtype}"


def _where(where: statements.Where) -> str:
    return f" where ({', '.join(map(str, where))})" if where else ""


def _grain(loop: statements.Loop) -> str:
    """How finely several threads share the turns, and what does them."""
    levels = f" of {loop.levels} loops" if loop.levels > 1 else ""
    ahead = " ahead" * loop.ahead
    by = f" by {loop.by}" if loop.by else ""
    return f" grain {loop.grain}{levels}{ahead}{by}" if loop.grain != 0 else by


def _sort(s: statements.Sort) -> str:
    order = "" if s.order is None else f" with %{s.order.name}"
    spare = ", ".join(f"%{b.name}" for b in s.spare)
    down = " descending" if s.descending else ""
    row = f"%{s.values.name}[{s.offset}] count {s.count}{order} spare ({spare})"
    return f"sort {row}{down}{_where(s.where)}"


def _operand(operand: statements.Operand) -> str:
    transposed = " transposed" if operand.transposed else ""
    if isinstance(operand.buffer, statements.Local):
        return f"%{operand.buffer.name}{transposed}"
    return f"%{operand.buffer.name}[{operand.offset}] step {operand.step}{transposed}"
