"""Files that are damaged, or made to do harm, are errors of the user's; nothing is allocated."""

from __future__ import annotations

import json
import os
import random
import resource
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dlvm
from dlvm import UserError

from .trees import model


def entry(dtype: str = "F32", shape: Any = (1,), offsets: Any = (0, 4), **more: Any) -> Any:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def written(path: Path, header: Any, data: bytes = b"abcd", length: int | None = None) -> Path:
    """A file of a header, text or what becomes JSON, with the length that it says it has."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(struct.pack("<Q", size) + text + data)
    return path


def most_memory() -> int:
    """The bytes that this process has had in memory at most."""
    found = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found if sys.platform == "darwin" else found << 10


ONE = json.dumps(entry()).encode()
DEEP = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":%s}}'
HOSTILE: dict[str, tuple[Any, ...]] = {
    "no bytes of a header": (b"", b""),
    "a length beyond the file": ({"a": entry()}, b"abcd", 10**6),
    "a length beyond all files": ({"a": entry()}, b"abcd", 2**64 - 1),
    "a length of 2**63": ({"a": entry()}, b"abcd", 2**63),
    "a length of nothing": ({"a": entry()}, b"abcd", 0),
    "no JSON": (b"\x00\xff\xfe",),
    "JSON of another kind": ([1, 2],),
    "a number": (b"7",),
    "text that is no UTF-8": (b'{"\xff":' + ONE + b"}",),
    "a lone surrogate": (b'{"\\ud800":' + ONE + b"}",),
    "lists in lists": (b"[" * 100_000 + b"]" * 100_000,),
    "lists in lists beside": (DEEP % (b"[" * 100_000 + b"]" * 100_000),),
    "objects in objects": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000,),
    "a name twice": (b'{"a":' + ONE + b',"a":' + ONE + b"}",),
    "a name twice, once empty": (
        b'{"a":' + json.dumps(entry(shape=(0,), offsets=(0, 0))).encode() + b',"a":' + ONE + b"}",
    ),
    "an unknown type": ({"a": entry("F7")},),
    "a type that we lack": ({"a": entry("F8_E4M3", (4,))},),
    "a complex type": ({"a": entry("C64", (1,), (0, 8))}, b"abcdabcd"),
    "no type": ({"a": {"shape": [1], "data_offsets": [0, 4]}},),
    "no shape": ({"a": {"dtype": "F32", "data_offsets": [0, 4]}},),
    "no offsets": ({"a": {"dtype": "F32", "shape": [1]}},),
    "a size below zero": ({"a": entry(shape=(-1,))},),
    "a size with a fraction": ({"a": entry(shape=(1.5,))},),
    "a size of text": ({"a": entry(shape=("1",))},),
    "a size beyond 64 bits": ({"a": entry(shape=(2**64,))},),
    "elements beyond 64 bits": ({"a": entry(shape=(2**62, 2**62))},),
    "elements beyond the file": ({"a": entry(shape=(10**12,))},),
    "an empty array of endless axes": ({"a": entry(shape=(0, 2**62, 2**62), offsets=(0, 0))}, b""),
    "more axes than arrays have": ({"a": entry(shape=(1,) * 100)},),
    "offsets beyond the file": ({"a": entry(offsets=(4, 8))},),
    "offsets far beyond": ({"a": entry(offsets=(2**63, 2**63 + 4))},),
    "offsets below zero": ({"a": entry(offsets=(-4, 0))},),
    "offsets backwards": ({"a": entry(offsets=(4, 0))},),
    "three offsets": ({"a": entry(offsets=(0, 2, 4))},),
    "arrays over one another": ({"a": entry(), "b": entry()},),
    "arrays that overlap": ({"a": entry(), "b": entry(offsets=(2, 6))}, b"abcdef"),
    "a hole": ({"a": entry(), "b": entry(offsets=(8, 12))}, b"abcd" * 3),
    "bytes after the last": ({"a": entry()}, b"abcde"),
    "fewer bytes": ({"a": entry()}, b"abc"),
    "another size than the offsets": ({"a": entry(shape=(2,))},),
    "metadata that is no text": ({"__metadata__": {"a": 1}, "a": entry()},),
    "bools that are neither": ({"a": entry("BOOL", (4,))}, b"\x00\x01\x02\xff"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(name: str, tmp_path: Path):
    path = written(tmp_path / "x", *HOSTILE[name])
    before = most_memory()
    with pytest.raises(UserError, match="load: "):
        dlvm.load(path)
    assert most_memory() - before < 64 << 20


def test_what_other_writers_may_do_is_taken(tmp_path: Path):
    header = {"__metadata__": {"format": "pt"}, "b": entry("U8", (3,), (0, 3)), "a": entry()}
    header["a"]["data_offsets"] = (3, 7)
    found = dlvm.load(written(tmp_path / "x", header, b"xyzabcd"))
    assert found["b"].tobytes() == b"xyz" and found["a"].tobytes() == b"abcd"
    assert found["a"].flags.aligned  # a copy: its bytes lie at an odd place
    assert dlvm.load(written(tmp_path / "x", {}, b"")) == {}


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="a folder or a device"):
        dlvm.load(tmp_path / "pipe")


def test_every_cut_of_a_file_is_refused(tmp_path: Path):
    path = tmp_path / "x"
    dlvm.save(path, {"a": np.arange(6.0), "b": np.ones(3, np.float16), "c": True})
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match="load: "):
            dlvm.load(path)


def test_random_damage_is_an_error_or_other_numbers(tmp_path: Path):
    """Bytes are changed, left out, doubled; nothing but a user's error or a dict comes of it."""
    path, rng = tmp_path / "x", random.Random(0)
    dlvm.save(path, {k: v for k, v in model().items() if k != "half"})
    whole = path.read_bytes()
    header = 8 + int.from_bytes(whole[:8], "little")
    refused = 0
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            i, j = sorted(rng.randrange(header) for _ in range(2))
            match rng.randrange(4):
                case 0:
                    damaged[i] = rng.randrange(256)
                case 1:
                    damaged[i] = rng.choice(b'0123456789-,:[]{}"')
                case 2:
                    del damaged[i : min(j, i + 9)]
                case _:
                    damaged[i:i] = damaged[i : min(j, i + 40)]
        path.write_bytes(damaged)
        try:
            assert all(type(x) is np.ndarray for x in dlvm.load(path).values())
        except UserError:
            refused += 1
    assert refused > 1000
