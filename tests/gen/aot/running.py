"""Written functions run in this process: the object is loaded as it is and called as C would."""

from __future__ import annotations

import ctypes

import numpy as np

from dlvm.gen.llvm.binding import Library
from dlvm.ir import DTYPES
from dlvm.targets import named

GUARD = 64
FILL = 0xA5


class Failed(Exception):
    """The status of a call that did not end well, and its words."""


class Loaded:
    """A written function: called with arrays, it gives a dict of results and of states."""

    def __init__(self, bundle, target):
        self.said, self.files = bundle.description, bundle.files
        name = self.said["name"]
        self.library = Library(self.files[f"{name}.o"], named(target))
        self.function = ctypes.CFUNCTYPE(ctypes.c_int32)(self.library.address(name))
        told = self.library.address(f"{name}_error")
        self.told = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int32)(told)
        self.weights = np.frombuffer(self.files[f"{name}.weights.bin"] + b"\0", np.uint8)

    def state(self, argument):
        """What an argument starts from."""
        start, data = argument["start"], self.files[f"{self.said['name']}.state.bin"]
        return np.frombuffer(data[start : start + argument["bytes"]], dtype(argument))

    def __call__(self, *arrays, misaligned=0, **sizes):
        """Arguments in order; all memory around what may be written must stay as it was."""
        known = {s["symbol"]: sizes[s["symbol"]] for s in self.said["sizes"]}
        given, kept, places = [], [], {}
        for argument, x in zip(self.said["arguments"], arrays, strict=True):
            x = np.asarray(x, dtype(argument), order="C")
            if argument["by"] == "value":
                given.append(plain(x, argument))
                continue
            place = Place(x.tobytes(), misaligned * x.itemsize)
            places[argument["name"]] = place, x
            kept.append((place, argument["role"] == "state"))
            given.append(ctypes.c_void_p(place.address))
        for result in (r for r in self.said["results"] if "into" not in r):
            shape = tuple(d if isinstance(d, int) else known[d] for d in result["shape"])
            blank = np.zeros(shape, dtype(result))
            place = Place(bytes([FILL]) * blank.nbytes, misaligned * blank.itemsize)
            places[result["name"]] = place, blank
            kept.append((place, True))
            given.append(ctypes.c_void_p(place.address))
        given += [ctypes.c_int64(n) for n in known.values()]
        scratch = Place(bytes([FILL]) * self.scratch(known), misaligned)
        kept.append((scratch, True))
        given += [ctypes.c_void_p(self.weights.ctypes.data), ctypes.c_void_p(scratch.address)]
        status = self.function(*given)
        for place, written in kept:
            place.check(written)
        if status:
            raise Failed(status, self.told(status).decode())
        return {n: place.read(x) for n, (place, x) in places.items()}

    def scratch(self, sizes):
        """How much of it a call needs."""
        if self.said["scratch"] is not None:
            return self.said["scratch"]
        at = self.library.address(f"{self.said['name']}_scratch_bytes")
        values = list(sizes.values())
        return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(values))(at)(*values)


class Place:
    """Memory with a guard on either side."""

    def __init__(self, content, shift):
        self.size, self.before = len(content), content
        guard = bytes([FILL]) * (GUARD + shift)
        self.all = ctypes.create_string_buffer(guard + content + bytes([FILL]) * GUARD)
        self.shift = GUARD + shift
        self.address = ctypes.addressof(self.all) + self.shift

    def check(self, written):
        raw = self.all.raw[:-1]
        assert set(raw[: self.shift]) == {FILL} == set(raw[self.shift + self.size :])
        assert written or raw[self.shift : self.shift + self.size] == self.before

    def read(self, like):
        found = self.all.raw[self.shift : self.shift + self.size]
        return np.frombuffer(found, like.dtype).reshape(like.shape)


def dtype(slot):
    return DTYPES[slot["dtype"]].numpy


def plain(x, argument):
    """A number as C passes it."""
    kinds = {"float": ctypes.c_float, "double": ctypes.c_double}
    name = argument["c_type"]
    if name in kinds:
        return kinds[name](x.item())
    kind = getattr(ctypes, f"c_{name.removesuffix('_t')}")
    return kind(int(x.view(f"u{x.itemsize}").item()) if x.dtype.kind not in "iu" else int(x))
