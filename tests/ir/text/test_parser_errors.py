"""Malformed text: each mistake is told in words, with the line and a caret under the place."""

# ruff: noqa: E501
from __future__ import annotations

import pytest

from dlvm.base.errors import IRError
from dlvm.ir import parse

HEAD = "dlvm 1\nfunc @f(%x: f32[3], %i: i64) -> f32[3] {\n"
TAIL = "  return %x\n}\n"

WHOLE = {
    "an empty text": ("", "expected 'dlvm 1', found an empty text"),
    "only comments": ("// nothing\n\n", "expected 'dlvm 1', found an empty text"),
    "no version": ("func @f() -> () {\n", "line 1: expected 'dlvm 1' on the first line"),
    "a later version": ("dlvm 7\n", "line 1: expected version 1 of the IR, which this dlvm reads, found 7"),
    "words after the version": ("dlvm 1 beta\n", "line 1: expected the end of the line, found 'beta'"),
    "no such entry": ("dlvm 1\nproc @f\n", "line 2: expected 'func' or a declaration, found 'proc'"),
    "a function without a name": ("dlvm 1\nfunc f() -> f32 {\n", "line 2: expected a name starting with @, found f"),
    "no parenthesis": ("dlvm 1\nfunc @f %x: f32\n", "line 2: expected (, found %x"),
    "no arrow": ("dlvm 1\nfunc @f() {\n", "line 2: expected ->, found {"),
    "no brace": ("dlvm 1\nfunc @f() -> ()\n", "line 2: expected {, found the end of the line"),
    "no return": (HEAD + "  %0 = neg %x : f32[3]\n", "expected '}' at the end of the function"),
    "two parameters of one name": ("dlvm 1\nfunc @f(%x: f32, %x: f32) -> () {\n", "line 2: two parameters are called %x"),
    "an unknown element type": ("dlvm 1\nfunc @f(%x: f31[3]) -> () {\n", "line 2: expected a type such as f32[3,4], found f31"),
    "a bracket left open": ("dlvm 1\nfunc @f(%x: f32[3) -> () {\n", "line 2: expected ,, found )"),
    "a size that is no number": ("dlvm 1\nfunc @f(%x: f32[1.5]) -> () {\n", "line 2: expected a size, found 1.5"),
    "other results than written": (HEAD + "  return %i\n}\n", "line 3: expected results f32[3], found i64"),
    "two functions of one name": (HEAD + TAIL + HEAD.removeprefix("dlvm 1\n") + TAIL, "two functions are called @f"),
    "a declaration of nothing": ("dlvm 1\nadjoint @df wrt (0)\n", "line 2: expected of, found wrt"),
    "a strange word in a declaration": ("dlvm 1\nadjoint @df of @f wrt (0) twice\n", "line 2: unexpected 'twice' in a declaration"),
    "a position that is no number": ("dlvm 1\nadjoint @df of @f wrt (x)\n", "line 2: expected an integer, found x"),
    "bad base64": ("dlvm 1\ndata #0 : f32[1] = !!!\n", "line 2: the data is not base64 of type f32[1]"),
    "too little data": ("dlvm 1\ndata #0 : f32[3] = AAAA\n", "line 2: the data is not base64 of type f32[3]"),
    "data of an unknown size": ("dlvm 1\ndata #0 : f32[B] = AAAAAA==\n", "line 2: the data is not base64 of type f32[B]"),
    "data twice": ("dlvm 1\ndata #0 : u8[1] = AA==\ndata #0 : u8[1] = AA==\n", "line 3: two data entries are called #0"),
    "data of a tape": ("dlvm 1\ndata #0 : tape[1] = AAAAAAAAAAA=\n", "line 2: a tape has no axes, found tape[1]"),
}  # fmt: skip

BODY = {
    "an unknown operation": ("%0 = tanhh %x : f32[3]", "unknown operation 'tanhh'; did you mean 'tanh'?"),
    "an operation like no other": ("%0 = qqqq %x : f32[3]", "unknown operation 'qqqq'"),
    "an unknown value": ("%0 = neg %y : f32[3]", "%y is not defined above this line"),
    "a value defined twice": ("%x = neg %x : f32[3]", "%x is defined twice"),
    "too few operands": ("%0 = add %x : f32[3]", "expected ,, found :"),
    "too many operands": ("%0 = neg %x, %x : f32[3]", "neg has no attribute ',' here; it has none"),
    "the wrong type": ("%0 = neg %x : f64[3]", "neg: expected results f32[3], found f64[3]"),
    "no type": ("%0 = neg %x", "neg: expected results f32[3], found no result"),
    "too many types": ("%0 = neg %x : f32[3], f32[3]", "neg: expected results f32[3], found f32[3], f32[3]"),
    "too few names": ("%0 = modf %x : f32[3], f32[3]", "modf: expected 2 names of results, found 1"),
    "an unknown attribute": ("%0 = sum %x axis=(0) : f32", "sum has no attribute 'axis' here; it has axes"),
    "an attribute twice": ("%0 = sum %x axes=(0) axes=(0) : f32", "sum has no attribute 'axes' here"),
    "a missing attribute": ("%0 = sum %x : f32", "sum needs axes"),
    "an attribute of another type": ("%0 = sum %x axes=0 : f32", "axes must be of type tuple[int, ...], found 0"),
    "a truth for a number": ("%0 = sum %x axes=(true) : f32", "axes must be of type tuple[int, ...], found (True,)"),
    "an axis that is not there": ("%0 = sum %x axes=(1) : f32", "sum: axes (1,) do not fit f32[3]"),
    "shapes that differ": ("%0 = matmul %x, %x : f32[3]", "matmul: expected equal batch axes"),
    "types that differ": ("%0 = add %x, %i : f32[3]", "add: expected one element type, found f32[3] and i64"),
    "a number that does not fit": ("%0 = constant value=300 : u8", "bad constant of type u8"),
    "a number that is too large": ("%0 = constant value=70000.0 : f16", "70000.0 is too large"),
    "a float for an integer": ("%0 = constant value=1.5 : i64", "bad constant of type i64"),
    "too many numbers": ("%0 = constant value=[1, 2] : i64[3]", "bad constant of type i64[3]"),
    "a number that is no number": ("%0 = constant value=[%x] : f32[1]", "expected a number, found %x"),
    "bits of too many digits": ("%0 = constant value=bits(0x1ffffffff) : f32", "bad constant of type f32"),
    "bits that are none": ("%0 = constant value=bits(seven) : f32", "expected bits such as 0x7fc00001, found seven"),
    "data that is not there": ("%0 = constant value=#4 : f32[20]", "no data entry #4"),
    "an open string": ('assert %x message="oh : i64', "bad string: Unterminated string"),
    "a bad string": ('print %x label="\\q"', "bad string"),
    "a stray character": ("%0 = neg %x ~ : f32[3]", "neg has no attribute '~' here"),
    "something after the type": ("%0 = neg %x : f32[3] f32", "expected the end of the line, found 'f32'"),
    "a list left open": ("%0 = concat [%x, %x axis=0 : f32[6]", "expected ,, found axis"),
    "no equals sign": ("%0 neg %x : f32[3]", "expected =, found neg"),
    "a size nested too deeply": (f"%0 = dim size={'min(2,' * 99}A{')' * 99} : i64", "sizes nested too deeply"),
    "an attribute nested too deeply": (f"%0 = sum %x axes={'(' * 300} : f32", "attributes nested too deeply"),
    "a number of a thousand digits": (f"%0 = dim size={'9' * 1000} : i64", "expected an integer"),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_malformed_text_is_refused_in_words(name: str):
    text, message = WHOLE[name]
    with pytest.raises(IRError) as caught:
        parse(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", BODY)
def test_a_malformed_line_is_shown_with_a_caret(name: str):
    line, message = BODY[name]
    with pytest.raises(IRError) as caught:
        parse(f"{HEAD}  {line}\n{TAIL}")
    told, *shown = str(caught.value).split("\n")
    assert told.startswith("line 3: ")
    assert message in told
    assert shown[-1].strip(" |") == "^"


def test_the_caret_stands_under_the_token_that_is_wrong():
    with pytest.raises(IRError) as caught:
        parse(f"{HEAD}  %0 = add %x, %nobody : f32[3]\n{TAIL}")
    _, shown, caret = str(caught.value).split("\n")
    assert shown.index("%nobody") == caret.index("^")


def test_a_long_line_is_shown_around_the_mistake():
    with pytest.raises(IRError) as caught:
        parse(f"{HEAD}  %0 = concat [{'%x, ' * 200}%y] axis=0 : f32[603]\n{TAIL}")
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) < 130
    assert shown[caret.index("^")] == "%"


def test_a_region_is_named_by_its_field():
    text = (
        "dlvm 1\nfunc @f(%c: bool) -> bool {\n  %0 = cond %c, [] : bool\n"
        "    els() -> bool {\n    }\n  return %c\n}\n"
    )
    with pytest.raises(IRError, match="line 4: expected then, found els"):
        parse(text)
