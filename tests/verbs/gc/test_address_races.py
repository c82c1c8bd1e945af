"""Writers of equal content at different addresses beside a collection, by many schedules.

Each owner deletes an object as soon as it is neither staged nor committed. All that is named stays.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from random import Random

import pytest

from campaigns.simulator.schedules import Schedule, scheduled
from sparklake import Lake, Repository, SparklakeError
from sparklake.errors import AddressConflictError, NoChangesError
from sparklake.rows.objects import ObjectInfo
from sparklake.stores.objects import open_object
from sparklake.testing.lakes import memory_lake, stage_table

SCHEDULES = 48
SHARES = 8
PATHS = ["a", "b"]
BODIES = [b"0", b"1"]
NO_GRACE = timedelta()


def md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


class Writer:
    """An actor with a branch of its own, and objects outside of the lake that it owns."""

    def __init__(self, lake: Lake, name: str, folder: Path, chance: Random) -> None:
        self.repo = lake.repository("repo")
        self.branch = self.repo.branch(name)
        self.folder = folder
        self.chance = chance
        self.made = count()
        self.staged: dict[str, Path] = {}
        """The files that it has staged last, by path."""
        self.hidden: list[Path] = []
        """The files that it has staged before those."""
        self.seen: Counter[str] = Counter()

    def __call__(self) -> None:
        for _ in range(self.chance.randint(4, 7)):
            verb = self.chance.choice(
                [
                    *(self.stage, self.stage, self.stage_all, self.stage_all, self.put),
                    *(self.commit, self.commit, self.reset, self.rm),
                    *(self.merge, self.merge),
                ]
            )
            with suppress(SparklakeError):
                verb()
                self.seen[verb.__name__] += 1

    def stage(self) -> None:
        self._stage([self.chance.choice(PATHS)])

    def stage_all(self) -> None:
        self._stage(PATHS)

    def _stage(self, paths: list[str]) -> None:
        rows, files = [], {}
        for path in paths:
            body = self.chance.choice(BODIES)
            file = files[path] = self.folder / f"{self.branch.name}-{next(self.made)}"
            file.write_bytes(body)
            row = {"path": path, "size": 1, "checksum": md5(body), "address": f"file://{file}"}
            rows.append(row)
        try:
            self.branch.stage(stage_table(rows))
        except AddressConflictError:
            self.seen["refused"] += 1
            delete(files.values())
            raise
        self._hide(files)
        self.staged.update(files)

    def put(self) -> None:
        path = self.chance.choice(PATHS)
        self.branch.put(path, self.chance.choice(BODIES))
        self._hide([path])

    def rm(self) -> None:
        path = self.chance.choice(PATHS)
        self.branch.delete(path)
        self._hide([path])

    def commit(self) -> None:
        try:
            self.branch.commit("c")
        except AddressConflictError:
            self.seen["commit refused"] += 1
            raise
        except NoChangesError:
            self._drop()
            raise
        delete(self.hidden)
        self.staged, self.hidden = {}, []

    def reset(self) -> None:
        self.branch.reset()
        self._drop()

    def merge(self) -> None:
        try:
            self.commit()
        except SparklakeError:
            self.reset()
        others = [each.name for each in self.repo.branches() if each.name != self.branch.name]
        self.repo.merge(self.chance.choice(others), self.branch.name, strategy="source-wins")

    def _hide(self, paths: Collection[str]) -> None:
        self.hidden += [self.staged.pop(each) for each in list(self.staged) if each in paths]

    def _drop(self) -> None:
        delete([*self.staged.values(), *self.hidden])
        self.staged, self.hidden = {}, []


def delete(files: Iterable[Path]) -> None:
    for each in files:
        each.unlink()


def named(repo: Repository) -> Iterator[ObjectInfo]:
    """Yield every object of every commit, and of what is staged."""
    for each in repo._context.refs.commits.find_by_prefix("", 1000):
        yield from repo.objects(each.id)
    for state in repo.branch_states(hidden=True):
        yield from repo.objects(state.name)


def check(repo: Repository) -> None:
    for each in named(repo):
        store, key = open_object(each.address)
        assert md5(store.get(key)) == each.checksum, each


def run_schedule(seed: int, folder: Path) -> Counter[str]:
    """Run one schedule; return how often things came to pass."""
    chance = Random(seed)
    outside = folder / f"{seed}-outside"
    outside.mkdir()
    lake = memory_lake()
    repo = lake.create_repository("repo", str(folder / str(seed)), range_records=1000)
    for name in ("w0", "w1", "w2"):
        repo.create_branch(name, "main")
    writers = [Writer(lake, f"w{number}", outside, chance) for number in range(3)]

    def collect() -> None:
        lake.repository("repo").collect_garbage(grace=NO_GRACE)

    schedule = Schedule(chance)
    with scheduled(schedule):
        schedule.run([collect, *writers])
    check(repo)
    for each in writers:
        each.reset()
    repo.collect_garbage(grace=NO_GRACE)
    check(repo)
    shutil.rmtree(outside)
    return sum((each.seen for each in writers), Counter())


@pytest.mark.system
@pytest.mark.parametrize("share", range(SHARES))
def test_what_owners_drop_is_named_by_no_version(share: int, tmp_path: Path) -> None:
    seen = Counter[str]()
    for seed in range(share, SCHEDULES, SHARES):
        try:
            seen += run_schedule(seed, tmp_path)
        except BaseException as error:
            raise AssertionError(f"schedule {seed}") from error
    assert seen["refused"], "no two addresses ever met"
    assert seen["commit"], "nothing was ever committed"
