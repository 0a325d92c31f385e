"""The same from Python with nothing but its standard library: the shared library and the JSON."""

import ctypes
import json
import sys
from pathlib import Path

folder = Path(sys.argv[1])
said = json.loads((folder / "classify.json").read_text("utf8"))
library = ctypes.CDLL(str((folder / "classify.so").resolve()))
library.classify_error.restype = ctypes.c_char_p

weights = (folder / "classify.weights.bin").read_bytes()
scratch = ctypes.create_string_buffer(said["scratch"])
x = (ctypes.c_float * 64)(*(i / 64 for i in range(64)))
share = (ctypes.c_float * 10)()
status = library.classify(x, share, weights, scratch)
if status:
    raise RuntimeError(library.classify_error(status).decode())
print(" ".join(f"{s:.6f}" for s in share))
