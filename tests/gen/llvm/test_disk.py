"""The store of compiled code gives back what was put or nothing, whatever becomes of the disk."""

import logging
import multiprocessing
import os
import random
import resource
import time

import pytest

from dlvm.gen.llvm.disk import MAGIC, SHARE, Store, digest

KEYS = [digest(str(i)) for i in range(50)]
KEY = KEYS[0]


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "cache", 1 << 20)


def warnings(caplog):
    return [r.message for r in caplog.records if r.levelno >= logging.WARNING]


def content(i, size=100):
    return random.Random(i).randbytes(size)


def test_bytes_come_back(store, caplog):
    assert store.get(KEY) is None
    for key, data in zip(KEYS, (b"", b"x", content(0, 10_000)), strict=False):
        store.put(key, data)
        assert store.get(key) == data
        assert Store(store.folder, store.limit).get(key) == data
    assert warnings(caplog) == []


def test_keys_of_parts_never_run_together():
    assert len({digest("ab", "c"), digest("a", "bc"), digest("abc"), digest("abc", "")}) == 4


def test_the_folder_and_its_files_are_private(store):
    store.put(KEY, b"x")
    assert store.folder.stat().st_mode & 0o777 == 0o700
    assert (store.folder / KEY).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("size", [0, 100])
def test_a_file_cut_anywhere_is_a_miss(store, size):
    store.put(KEY, content(1, size))
    whole = (store.folder / KEY).read_bytes()
    for length in range(len(whole)):
        (store.folder / KEY).write_bytes(whole[:length])
        assert store.get(KEY) is None, length
    (store.folder / KEY).write_bytes(whole + b"\0")
    assert store.get(KEY) is None


def test_any_changed_byte_is_a_miss_with_one_warning(store, caplog):
    store.put(KEY, content(2))
    whole = (store.folder / KEY).read_bytes()
    for i in range(len(whole)):
        changed = bytearray(whole)
        changed[i] ^= 1 << i % 8
        (store.folder / KEY).write_bytes(changed)
        assert store.get(KEY) is None, i
    (message,) = warnings(caplog)
    assert "is damaged" in message
    store.put(KEY, content(2))
    assert store.get(KEY) == content(2)


def test_a_file_under_the_name_of_another_is_a_miss(store):
    store.put(KEY, b"x")
    os.rename(store.folder / KEY, store.folder / KEYS[1])
    assert store.get(KEYS[1]) is None
    assert [k for k, _ in store.damaged()] == [KEYS[1]]


def test_what_others_may_have_written_is_not_read(store, caplog, monkeypatch):
    store.put(KEY, b"x")
    for path in (store.folder, store.folder / KEY):
        mode = path.stat().st_mode
        path.chmod(mode | 0o002)
        assert store.get(KEY) is None
        path.chmod(mode)
        assert store.get(KEY) == b"x"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert store.get(KEY) is None
    store.put(KEYS[1], b"y")
    assert not (store.folder / KEYS[1]).exists()
    assert len(warnings(caplog)) == 2  # one to read, one to write


def test_links_are_not_followed(store, tmp_path):
    store.put(KEY, b"x")
    os.rename(store.folder / KEY, tmp_path / "moved")
    os.symlink(tmp_path / "moved", store.folder / KEY)
    assert store.get(KEY) is None
    os.unlink(store.folder / KEY)
    os.rename(tmp_path / "moved", store.folder / KEY)
    os.symlink(store.folder, tmp_path / "link")
    assert store.get(KEY) == b"x"
    assert Store(tmp_path / "link", 1 << 20).get(KEY) is None


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(store):
    store.put(KEY, b"x")
    os.unlink(store.folder / KEY)
    os.mkfifo(store.folder / KEY)
    assert store.get(KEY) is None


@pytest.mark.parametrize("place", ["file/cache", "file"])
def test_a_folder_that_can_not_be_made_is_a_miss(tmp_path, place, caplog):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / place, 1 << 20)
    for _ in range(3):
        store.put(KEY, b"x")
        assert store.get(KEY) is None
    assert len(warnings(caplog)) == 2


def test_a_full_disk_leaves_nothing_behind(store, caplog):
    store.put(KEY, b"x")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limit[1]))
    try:
        store.put(KEYS[1], content(1, 100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert os.listdir(store.folder) == [KEY]
    assert len(warnings(caplog)) == 1
    assert store.get(KEY) == b"x"


def test_a_disk_that_can_only_be_read_still_serves(store, monkeypatch, caplog):
    store.put(KEY, b"x")

    def refuse(*_, **__):
        raise PermissionError("read-only")

    for name in ("utime", "replace"):
        monkeypatch.setattr(os, name, refuse)
    assert store.get(KEY) == b"x"
    store.put(KEYS[1], b"y")
    assert os.listdir(store.folder) == [KEY]
    assert len(warnings(caplog)) == 1


def test_the_folder_stays_below_its_limit_and_keeps_what_is_used(tmp_path):
    limit = 100_000
    store = Store(tmp_path, limit)
    tmp_path.chmod(0o700)
    (tmp_path / "mine").write_bytes(content(0, 2 * limit))
    for i, key in enumerate(KEYS):
        store.put(key, content(i, 5000))
        os.utime(tmp_path / key, (i, i))  # clocks of file systems are coarse
        assert store.get(KEY) == content(0, 5000)
        held = sum(f.stat().st_size for f in tmp_path.iterdir() if f.name != "mine")
        assert held <= limit + limit // SHARE
    kept = [e.key for e in store.entries()]
    assert len(kept) >= 15
    assert set(kept) == {KEY, *KEYS[-len(kept) + 1 :]}
    assert (tmp_path / "mine").exists()


def test_what_is_too_large_for_the_limit_is_not_kept(store):
    store.put(KEY, bytes(store.limit))
    assert store.get(KEY) is None
    assert store.entries() == []


def test_what_dead_processes_left_is_removed_and_not_what_is_being_written(store):
    store.put(KEY, b"x")
    old, new = (store.folder / f".{i:016x}.unfinished" for i in range(2))
    for file in (old, new):
        file.write_bytes(MAGIC)
    os.utime(old, (time.time() - 4000,) * 2)
    Store(store.folder, store.limit).put(KEYS[1], b"y")
    assert not old.exists()
    assert new.exists()


def _busy(folder, seed):
    dice, store = random.Random(seed), Store(folder, 60_000)
    while True:
        i = dice.randrange(len(KEYS))
        found = store.get(KEYS[i])
        assert found is None or found == content(i, 2000 + i)
        store.put(KEYS[i], content(i, 2000 + i))


def test_processes_that_write_at_once_and_are_killed_spoil_nothing(tmp_path):
    context = multiprocessing.get_context("spawn")
    folder = tmp_path / "cache"
    workers = [context.Process(target=_busy, args=(folder, s), daemon=True) for s in range(4)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not (folder.exists() and len(os.listdir(folder)) > 15):
        time.sleep(0.05)
    for worker in workers:
        time.sleep(0.2)
        assert worker.is_alive()  # none has seen wrong bytes
        worker.kill()
        worker.join()
    store = Store(folder, 60_000)
    assert len(store.entries()) > 5
    assert store.damaged() == []
    assert sum(e.bytes for e in store.entries()) < 2 * 60_000
