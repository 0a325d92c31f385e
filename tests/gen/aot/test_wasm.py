"""A module of one object file computes what the object's functions say, and imports nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlvm.base.errors import ArgumentError, CompilerError
from dlvm.gen.aot.wasm import module

from .objects import object_of, run

TABLES = """
@table = constant [4 x i32] [i32 11, i32 22, i32 33, i32 44]
@inner = internal constant ptr getelementptr ([4 x i32], ptr @table, i32 0, i32 2)
@wide = internal constant [3 x double] [double 0.5, double 1.5, double 2.5], align 64
define i32 @pick(i32 %k) {
  %p = getelementptr [4 x i32], ptr @table, i32 0, i32 %k
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @before(i32 %k) {
  %p = getelementptr [4 x i32], ptr getelementptr (i8, ptr @table, i32 -16), i32 0, i32 %k
  %v = load i32, ptr %p
  ret i32 %v
}
define i32 @third() {
  %p = load volatile ptr, ptr @inner
  %v = load i32, ptr %p
  ret i32 %v
}
define double @half(i32 %k) {
  %p = getelementptr [3 x double], ptr @wide, i32 0, i32 %k
  %v = load double, ptr %p
  ret double %v
}
define ptr @where() {
  ret ptr @wide
}
"""
POINTERS = """
@two = internal constant [2 x ptr] [ptr @add, ptr @mul]
define internal i32 @add(i32 %a, i32 %b) {
  %r = add i32 %a, %b
  ret i32 %r
}
define internal i32 @mul(i32 %a, i32 %b) {
  %r = mul i32 %a, %b
  ret i32 %r
}
define i32 @either(i32 %k, i32 %a, i32 %b) {
  %p = getelementptr [2 x ptr], ptr @two, i32 0, i32 %k
  %f = load ptr, ptr %p
  %r = call i32 %f(i32 %a, i32 %b)
  ret i32 %r
}
define i32 @null() {
  %f = load volatile ptr, ptr @nothing
  %r = call i32 %f(i32 1, i32 2)
  ret i32 %r
}
@nothing = internal global ptr null
define ptr @address() {
  ret ptr @mul
}
"""
ARRAYS = """
@zeros = internal global [1000 x i32] zeroinitializer, align 64
@start = internal global i32 5
define i32 @count() {
  %v = load i32, ptr @start
  %n = add i32 %v, 1
  store i32 %n, ptr @start
  %p = getelementptr [1000 x i32], ptr @zeros, i32 0, i32 %v
  %z = load i32, ptr %p
  store i32 %n, ptr %p
  %r = add i32 %z, %n
  ret i32 %r
}
define i32 @reversed(i32 %n) {
  %a = alloca [64 x i32], align 16
  br label %fill
fill:
  %i = phi i32 [ 0, %0 ], [ %j, %fill ]
  %p = getelementptr [64 x i32], ptr %a, i32 0, i32 %i
  store volatile i32 %i, ptr %p
  %j = add i32 %i, 1
  %more = icmp ult i32 %j, 64
  br i1 %more, label %fill, label %done
done:
  %k = sub i32 63, %n
  %q = getelementptr [64 x i32], ptr %a, i32 0, i32 %k
  %v = load volatile i32, ptr %q
  ret i32 %v
}
define i32 @endless(i32 %n) {
  %a = alloca [4096 x i32]
  store volatile i32 %n, ptr %a
  %m = add i32 %n, 1
  %r = call i32 @endless(i32 %m)
  %v = load volatile i32, ptr %a
  %s = add i32 %r, %v
  ret i32 %s
}
"""
COPIES = """
declare ptr @memcpy(ptr, ptr, i32)
declare ptr @memmove(ptr, ptr, i32)
declare ptr @memset(ptr, i32, i32)
define ptr @copy(ptr %a, ptr %b, i32 %n) {
  %r = call ptr @memcpy(ptr %a, ptr %b, i32 %n)
  ret ptr %r
}
define ptr @move(ptr %a, ptr %b, i32 %n) {
  %r = call ptr @memmove(ptr %a, ptr %b, i32 %n)
  ret ptr %r
}
define ptr @fill(ptr %a, i32 %b, i32 %n) {
  %r = call ptr @memset(ptr %a, i32 %b, i32 %n)
  ret ptr %r
}
"""
EVERYTHING = object_of(TABLES + POINTERS + ARRAYS + COPIES)
NAMES = ("pick", "either", "count", "reversed", "copy")


def test_data_and_addresses_in_code_and_in_data_are_where_symbols_say(tmp_path: Path):
    made = module(object_of(TABLES), ["pick", "before", "third", "half", "where"])
    found = run(
        made,
        "[[0, 1, 2, 3].map(e.pick), e.before(5), e.third(), [0, 1, 2].map(e.half), e.where() % 64]",
        tmp_path,
    )
    assert found == [[11, 22, 33, 44], 22, 33, [0.5, 1.5, 2.5], 0]


def test_calls_through_pointers_reach_their_functions_and_null_traps(tmp_path: Path):
    made = module(object_of(POINTERS), ["either", "null", "address"])
    trap = "(() => { try { return e.null() } catch (x) { return x.constructor.name } })()"
    found = run(made, f"[e.either(0, 6, 7), e.either(1, 6, 7), {trap}, e.address() > 0]", tmp_path)
    assert found == [13, 42, "RuntimeError", True]


def test_a_function_whose_address_code_alone_takes_is_in_the_table(tmp_path: Path):
    text = """
    define i32 @seven() {
      ret i32 7
    }
    define i32 @through(i32 %twice) {
      %p = alloca ptr
      store volatile ptr @seven, ptr %p
      %f = load volatile ptr, ptr %p
      %r = call i32 %f()
      ret i32 %r
    }
    """
    assert run(module(object_of(text), ["through"]), "e.through(0)", tmp_path) == 7


def test_zeroed_data_take_no_bytes_and_state_stays_between_calls(tmp_path: Path):
    made = module(object_of(ARRAYS), ["count", "reversed"])
    assert len(made) < 600
    found = run(made, "[e.count(), e.count(), e.count(), e.reversed(3)]", tmp_path)
    assert found == [6, 7, 8, 60]


def test_a_stack_that_overflows_traps_and_leaves_data_alone(tmp_path: Path):
    made = module(object_of(TABLES + ARRAYS), ["endless", "pick"], stack=40_000)
    overflow = "(() => { try { e.endless(1) } catch (x) { return x.message } })()"
    found = run(
        made,
        f"[e.__stack_pointer.value, {overflow}, e.__stack_pointer.value >> 31, e.pick(3)]",
        tmp_path,
    )
    assert found == [40_000, "memory access out of bounds", -1, 44]


def test_copies_and_fills_are_supplied(tmp_path: Path):
    made = module(object_of(COPIES, "+mutable-globals"), ["copy", "move", "fill"])
    found = run(
        made,
        "(() => { e.memory.grow(1); const p = e.__heap_base.value;"
        "const m = new Uint8Array(e.memory.buffer, p, 8); m.set([1, 2, 3, 4, 5, 6, 7, 8]);"
        "const r = [e.move(p + 1, p, 4) - p, ...m]; r.push(e.copy(p + 6, p, 2) - p, ...m);"
        "r.push(e.fill(p, 9, 3) - p, ...m); return r })()",
        tmp_path,
    )
    assert found == [
        *(1, 1, 1, 2, 3, 4, 6, 7, 8),
        *(6, 1, 1, 2, 3, 4, 6, 1, 1),
        *(0, 9, 9, 9, 3, 4, 6, 1, 1),
    ]


def test_an_own_copy_is_not_replaced(tmp_path: Path):
    text = """
    define ptr @memcpy(ptr %a, ptr %b, i32 %n) noinline {
      %r = inttoptr i32 5 to ptr
      ret ptr %r
    }
    define ptr @copy(ptr %a, ptr %b, i32 %n) {
      %r = call ptr @memcpy(ptr %a, ptr %b, i32 %n)
      ret ptr %r
    }
    """
    assert run(module(object_of(text), ["copy"]), "e.copy(0, 0, 0)", tmp_path) == 5


def test_the_heap_base_lies_behind_all_data_and_within_memory(tmp_path: Path):
    text = "@a = global [100003 x i8] zeroinitializer, align 1\ndefine ptr @at() { ret ptr @a }"
    made = module(object_of(text), ["at"], stack=1 << 16)
    at, base, size = run(
        made, "[e.at(), e.__heap_base.value, e.memory.buffer.byteLength]", tmp_path
    )
    assert at == 1 << 16 and at + 100_003 <= base < at + 100_003 + 64
    assert base % 64 == 0 and base <= size < base + (1 << 16)


def test_only_the_named_functions_are_exported_and_nothing_is_imported(tmp_path: Path):
    made = module(EVERYTHING, NAMES)
    found = run(
        made,
        "(() => { const M = WebAssembly.Module, m = new M(bytes);"
        "return [Object.keys(e), M.imports(m), M.customSections(m, 'target_features').length] })()",
        tmp_path,
    )
    assert found == [[*NAMES, "memory", "__stack_pointer", "__heap_base"], [], 1]


def test_names_of_the_modules_own_are_refused_and_repeated_ones_are_one_export(tmp_path: Path):
    made = module(EVERYTHING, ["pick", "pick"])
    assert run(made, "Object.keys(e).length", tmp_path) == 4
    text = "define i32 @memory() { ret i32 1 }"
    with pytest.raises(ArgumentError, match="its own as memory; give the function another name"):
        module(object_of(text), ["memory"])


def test_undefined_names_are_told():
    text = """
    declare float @fmaf(float, float, float)
    @elsewhere = external global i32
    define float @f(float %x) {
      %n = load i32, ptr @elsewhere
      %y = sitofp i32 %n to float
      %r = call float @fmaf(float %x, float %x, float %y)
      ret float %r
    }
    """
    with pytest.raises(CompilerError, match="uses elsewhere, fmaf, which it does not define"):
        module(object_of(text), ["f"])


def test_an_export_that_is_not_there_is_told_with_those_that_are():
    for name in ("sum", "mul"):  # mul is internal
        with pytest.raises(CompilerError, match=f"no function {name}; it defines address, before"):
            module(EVERYTHING, ["pick", name])


def test_code_that_any_address_would_do_for_is_refused():
    with pytest.raises(CompilerError, match="__memory_base"):
        module(object_of(TABLES, reloc="pic"), ["pick"])


def test_constructors_and_other_files_are_refused():
    text = """
    @llvm.global_ctors = appending global [1 x { i32, ptr, ptr }]
      [{ i32, ptr, ptr } { i32 1, ptr @f, ptr null }]
    define void @f() { ret void }
    """
    with pytest.raises(CompilerError, match="run at its start"):
        module(object_of(text), ["f"])
    for other in (b"", b"\x7fELF" + bytes(60)):
        with pytest.raises(CompilerError, match="does not start as a binary"):
            module(other, ["f"])


def test_a_truncated_object_is_one_error():
    for end in range(len(EVERYTHING)):
        try:
            module(EVERYTHING[:end], NAMES)
        except CompilerError:
            continue
        assert EVERYTHING[end:].startswith(b"\0")  # whole, but for custom sections


@given(st.lists(st.tuples(st.integers(0, len(EVERYTHING) - 1), st.integers(0, 255)), min_size=1))
def test_a_mutated_object_is_a_module_or_one_error(changes: list[tuple[int, int]]):
    mutated = bytearray(EVERYTHING)
    for at, byte in changes:
        mutated[at] = byte
    try:
        made = module(bytes(mutated), NAMES)
    except CompilerError as error:
        assert error.message.startswith("the object file for WebAssembly ")
    else:
        assert made[:8] == EVERYTHING[:8]


def test_data_for_debuggers_are_left_out(tmp_path: Path):
    text = """
    define i32 @one() !dbg !3 { ret i32 1, !dbg !6 }
    !llvm.dbg.cu = !{!0}
    !llvm.module.flags = !{!2}
    !0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1, emissionKind: FullDebug)
    !1 = !DIFile(filename: "a.py", directory: "/")
    !2 = !{i32 2, !"Debug Info Version", i32 3}
    !3 = distinct !DISubprogram(name: "one", file: !1, line: 1, type: !4, unit: !0,
                                spFlags: DISPFlagDefinition)
    !4 = !DISubroutineType(types: !5)
    !5 = !{null}
    !6 = !DILocation(line: 1, scope: !3)
    """
    content = object_of(text)
    made = module(content, ["one"])
    assert b"reloc..debug_info" in content and b".debug" not in made
    assert run(made, "e.one()", tmp_path) == 1
