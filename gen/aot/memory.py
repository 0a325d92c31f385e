"""The functions of a C library that LLVM may call for copies and fills, in WebAssembly.

Each is one instruction of bulk memory, which every engine has had since 2021. They are of the type
of C on 32 bits: two words and a number of bytes to the first word.
"""

from __future__ import annotations

from .wasm_format import END, FUNCTYPE, I32

TYPE = bytes((FUNCTYPE, 3, I32, I32, I32, 1, I32))
_LOCAL_GET, _BULK, _COPY, _FILL = 0x20, 0xFC, 0x0A, 0x0B


def _body(*operation: int) -> bytes:
    """No variables; ``operation`` on all three parameters; the first one is the result."""
    parameters = (_LOCAL_GET, 0, _LOCAL_GET, 1, _LOCAL_GET, 2)
    return bytes((0, *parameters, _BULK, *operation, _LOCAL_GET, 0, END))


BODIES = {
    "memcpy": _body(_COPY, 0, 0),
    "memmove": _body(_COPY, 0, 0),
    "memset": _body(_FILL, 0),
}
