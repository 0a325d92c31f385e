"""Bytes on disk under a key, for compiled code: whatever is wrong with the disk is a miss.

A file holds a magic line, the digest of the rest, its own key, and the bytes; it is read whole
and compared before anybody sees it. The folder and the files must be the user's own and closed
to others. Files are written beside their place and renamed into it, so that other processes see
all of one or nothing; those not used for longest go when there are too many. What fails is said
once, in a warning, and then the code is made again.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dlvm.base.system import REPLACING, has

MAGIC = b"dlvm cache 1\n"
DIGEST = hashlib.sha256().digest_size
KEY = re.compile(r"[0-9a-f]{64}")
UNFINISHED = re.compile(r"\.[0-9a-f]{16}\.unfinished")
ABANDONED_AFTER = 3600.0
"""Seconds after which a file that was never renamed belongs to a process that is gone."""
SHARE = 32
"""What part of the limit is written before the folder is weighed again, as others write too."""
log = logging.getLogger("dlvm.cache")


def digest(*parts: str | bytes) -> str:
    """One key for several parts, none of which runs into the next."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode("utf8", "surrogatepass") if isinstance(part, str) else part
        found.update(len(data).to_bytes(8, "little"))
        found.update(data)
    return found.hexdigest()


class Refused(Exception):
    """A file or folder that is there and can't be trusted."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: its key, how long it is, and when it was last used."""

    key: str
    bytes: int
    used: float


class Store:
    """A folder of files named by their keys, ``limit`` bytes of them at most."""

    def __init__(self, folder: Path, limit: int) -> None:
        self.folder = folder
        self.limit = limit
        self.lock = threading.Lock()
        self._unweighed = limit
        self._said: set[str] = set()

    # -- what a compile asks -----------------------------------------------------------------------

    def get(self, key: str) -> bytes | None:
        """The bytes that were put under a key, or None."""
        try:
            return self._read(key)
        except FileNotFoundError:
            return None
        except (OSError, Refused) as error:
            self._warn("read", error)
            return None

    def put(self, key: str, data: bytes) -> None:
        """Keep bytes under a key, if that can be done."""
        try:
            if len(data) <= self.limit // 2:
                self._make_room(len(data))
                self._write(key, data)
        except (OSError, Refused) as error:
            self._warn("write", error)

    # -- what its owner asks -----------------------------------------------------------------------

    def entries(self) -> list[Entry]:
        """Every file, the one not used for longest first."""
        self._check_folder()
        found = [Entry(f.name, s.st_size, s.st_mtime) for f, s in self._files(KEY)]
        return sorted(found, key=lambda e: (e.used, e.key))

    def damaged(self) -> list[tuple[str, str]]:
        """The keys of the files that can't be used, and why."""
        out: list[tuple[str, str]] = []
        for entry in self.entries():
            try:
                self._read(entry.key)
            except (OSError, Refused) as error:
                out.append((entry.key, str(error)))
        return out

    def remove(self, key: str) -> None:
        """Forget one key."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.folder / key)

    # -- files -------------------------------------------------------------------------------------

    def _read(self, key: str) -> bytes:
        self._check_folder()
        path = self.folder / key
        with open(path, "rb", opener=_without_following) as file:
            _check_owner(os.fstat(file.fileno()), path, stat.S_ISREG)
            found = file.read()
        with contextlib.suppress(OSError):  # on a disk that can't be written nothing is evicted
            os.utime(path)
        return _unwrapped(found, key, path)

    def _write(self, key: str, data: bytes) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._check_folder()
        unfinished = self.folder / f".{os.urandom(8).hex()}.unfinished"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        try:
            with open(unfinished, "wb", opener=lambda p, f: os.open(p, f | flags, 0o600)) as file:
                file.write(_wrapped(key, data))
            _put(unfinished, self.folder / key)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(unfinished)
            raise

    def _make_room(self, size: int) -> None:
        """Weigh the folder now and then, and take the oldest files out where it is too heavy."""
        with self.lock:
            self._unweighed += size
            if self._unweighed <= self.limit // SHARE:
                return
            self._unweighed = size
        self._check_folder()
        self._drop_abandoned()
        kept = self.entries()
        held = sum(e.bytes for e in kept) + size + self.limit // SHARE
        for entry in kept:
            if held <= self.limit:
                break
            with contextlib.suppress(PermissionError):  # Windows removes no file that is read now
                self.remove(entry.key)
                held -= entry.bytes

    def _drop_abandoned(self) -> None:
        for file, status in self._files(UNFINISHED):
            if time.time() - status.st_mtime > ABANDONED_AFTER:
                self.remove(file.name)

    def _files(self, name: re.Pattern[str]) -> Iterator[tuple[os.DirEntry[str], os.stat_result]]:
        """Files whose whole name fits; another process may remove any of them meanwhile."""
        try:
            listing = list(os.scandir(self.folder))
        except FileNotFoundError:
            return
        for file in listing:
            with contextlib.suppress(FileNotFoundError):
                if name.fullmatch(file.name):
                    yield file, file.stat(follow_symlinks=False)

    def _check_folder(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            _check_owner(os.lstat(self.folder), self.folder, stat.S_ISDIR)

    def _warn(self, what: str, error: Exception) -> None:
        with self.lock:
            first = what not in self._said
            self._said.add(what)
        if first:
            log.warning("compiled code can't be %s in the cache, and is made anew: %s", what, error)


def _put(unfinished: Path, place: Path) -> None:
    """Give a complete file its name; on Windows not while another process reads the same one."""
    try:
        os.replace(unfinished, place)
    except PermissionError:
        if has(REPLACING) or not place.exists():
            raise
        os.unlink(unfinished)


def _without_following(path: str, flags: int) -> int:
    """Open a file that may be no file: no link is followed, and no pipe is waited for."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, flags | careful)


def _check_owner(found: os.stat_result, path: Path, kind: object) -> None:
    """What others could have written is not run; systems without owners keep folders apart."""
    assert callable(kind)
    if not kind(found.st_mode):
        raise Refused(f"{path} is a link or another kind of file")
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to another user")
    if found.st_mode & 0o022:
        raise Refused(f"others may write to {path} (chmod go-w makes it private)")


def _wrapped(key: str, data: bytes) -> bytes:
    rest = key.encode() + data
    return MAGIC + hashlib.sha256(rest).digest() + rest


def _unwrapped(found: bytes, key: str, path: Path) -> bytes:
    body = memoryview(found)[len(MAGIC) + DIGEST :]
    expected = MAGIC + hashlib.sha256(body).digest() + key.encode()
    if not found.startswith(expected):
        raise Refused(f"{path} is damaged")
    return bytes(body[len(key) :])
