"""A process that reads tables through a cache, repeatedly, and checks them.

Its arguments are the task, the store, the cache's folder and size, a seed, and the number of turns.
The content of a table follows from its number, and its name from the content.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from hashlib import sha256
from itertools import count
from pathlib import Path

from sparklake.errors import CorruptFileError
from sparklake.graveler.ports import Content
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.stores.cache import DiskCache
from sparklake.stores.cache.cached_store import CachedStore
from sparklake.stores.cache.counts import TALLY
from sparklake.stores.objects import open_store

TABLES = 60
LARGEST = 40_000
HEADER = 16


def content_of(number: int) -> bytes:
    """Return a table of 200 to 40,000 bytes."""
    size = 200 + number * 7919 % (LARGEST - 200)
    return random.Random(number).randbytes(size)


def id_of(content: bytes) -> str:
    return sha256(content).hexdigest()


def verify(table_id: str, content: Content) -> None:
    if id_of(content[:]) != table_id:
        raise CorruptFileError(table_id)


def read_on(uri: str, folder: Path, max_bytes: int, seed: int, turns: int) -> None:
    """Read several tables at a time; sometimes clear the cache."""
    cache = DiskCache(folder, max_bytes)
    store = CachedStore(open_store(uri), cache, verify)
    contents = [content_of(number) for number in range(TABLES)]
    keys = [tree_file_key(id_of(content)) for content in contents]
    choose = random.Random(seed)
    for turn in count(1) if turns == 0 else range(1, turns + 1):
        numbers = [choose.randrange(TABLES) for _ in range(choose.randrange(1, 20))]
        contents_read = list(store.get_many([keys[number] for number in numbers]))
        assert contents_read == [contents[number] for number in numbers]
        if turn % 100 == 0 and choose.random() < 0.2:
            cache.clear()


def kill_readers(uri: str, folder: Path, max_bytes: int, seed: int, turns: int) -> None:
    """Start two endless readers and kill them, repeatedly."""
    choose = random.Random(seed)
    for turn in range(turns):
        children = []
        for number in range(2):
            child = os.fork()
            if child == 0:
                read_on(uri, folder, max_bytes, 2 * turn + number, 0)
            children.append(child)
        time.sleep(choose.uniform(0.02, 0.2))
        for child in children:
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            assert os.WTERMSIG(status) == signal.SIGKILL
        assert bytes_below(folder) <= max_bytes + HEADER + LARGEST


def bytes_below(folder: Path) -> int:
    """Return the size of all files except the lock."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return sum(path.stat().st_size for path in files)


WORK = {each.__name__: each for each in (read_on, kill_readers)}


def main() -> None:
    work, uri, folder, max_bytes, seed, turns = sys.argv[1:]
    print("ready", flush=True)  # noqa: T201
    WORK[work](uri, Path(folder), int(max_bytes), int(seed), int(turns))
    counts = TALLY.total()
    print(counts.hits, counts.misses)  # noqa: T201


if __name__ == "__main__":
    main()
