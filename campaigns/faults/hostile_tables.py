"""Hostile tables under a check: python -m campaigns.faults.hostile_tables --rounds 20000 --seed 1.

A round writes a range or a metarange with one wrong field and valid checksums into a healthy
repository: in place of a sound one, or under its new id in a new commit. A check and the plan of a
repair end with a report. A check is healthy only if `ls`, `stat` and `diff` agree. Half of the
rounds run without compiled kernels.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from campaigns.faults.checking import ViolationError
from campaigns.faults.forged_tables import FILES, RECORDS, Forgery, forged
from campaigns.faults.lake_faults import file_as
from campaigns.faults.rounds import Cell, Figures, Options, parse_options, report, run_rounds
from sparklake import Lake, Repository
from sparklake.errors import ObjectNotFoundError, SparklakeError
from sparklake.graveler.commits import new_commit
from sparklake.graveler.ids import CommitId, MetaRangeId, RangeId
from sparklake.graveler.kernel_choice import only_definitions
from sparklake.graveler.ranges import RangeInfo, _range_record, range_list
from sparklake.graveler.records import Record
from sparklake.graveler.sstable.range_files import read_range_file
from sparklake.rows.findings import KIND_FACTS, Severity
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake, namespace_of

RANGE, META_RANGE = "range", "metarange"
KINDS = [(table, part) for table in (RANGE, META_RANGE) for part in (*RECORDS, *FILES)]
"""The tables and their parts: each round changes one field of one."""

_OBJECTS = 150
_REPAIRED = 0.2
"""The share of rounds that also plan a repair."""

Facts = tuple[int, str, str, dict[str, str]]
Listing = dict[str, Facts]


def main() -> None:
    """Run the campaign, and print its figures."""
    options = parse_options(__doc__, 20_000)
    report(
        "Hostile tables", options, campaign(options), "python -m campaigns.faults.hostile_tables"
    )


def campaign(options: Options) -> Figures:
    """Check repositories with forged tables; return the figures."""
    with memory_folder() as folder:
        scene = _scene(folder)
        return run_rounds(
            "campaigns.faults.hostile_tables",
            options,
            _rounds(options),
            lambda name: scene.round(name, Random(f"{options.seed} {name}")),
        )


def _rounds(options: Options) -> Iterator[str]:
    """Yield the table, the part and the number of each round."""
    for number in range(options.rounds):
        table, part = KINDS[number % len(KINDS)]
        yield f"{table}, {part}:{number}"


@dataclass(frozen=True)
class _Scene:
    """A healthy repository, and the records of its first commit."""

    lake: Lake
    ranges: tuple[RangeInfo, ...]
    records: dict[str, list[Record]]
    tree: MetaRangeId
    head: CommitId
    before: CommitId
    sound: Listing
    other: Listing

    @property
    def repo(self) -> Repository:
        """The repository, opened anew with empty caches."""
        return self.lake.repository("lake")

    def round(self, name: str, chance: Random) -> Cell:
        """Forge a table; judge the check, the repair and the reads."""
        table, part = name.split(":")[0].split(", ", 1)
        kernels = only_definitions() if chance.random() < 0.5 else nullcontext()
        with kernels, self._installed(table, part, chance) as (commit, is_same):
            healthy = _is_healthy(self.repo)
            problem = self._problem(commit, is_same)
            if healthy and problem:
                raise ViolationError(f"the check is healthy, but {problem}")
            if not healthy and chance.random() < _REPAIRED:
                self.repo.repair("trees", dry_run=True)
        outcome = "healthy, equal reads" if healthy else "found"
        return f"{table}, {part}", outcome if healthy or problem else "found, equal reads"

    @contextmanager
    def _installed(self, table: str, part: str, chance: Random) -> Iterator[tuple[str, bool]]:
        """Write a forged table; yield its commit, and whether the table has the sound id."""
        root = namespace_of(self.repo) / "_lakefs"
        if table == RANGE:
            at = chance.randrange(len(self.ranges))
            sound = self.ranges[at]
            forgery = forged(self.records[sound.id], part, chance)
            if forgery.id == sound.id:
                with file_as(root / sound.id, forgery.file):
                    yield self.head, True
                return
            described = _described(forgery, sound)
            ranges = (*self.ranges[:at], described, *self.ranges[at + 1 :])
            tree = forged([_range_record(each) for each in ranges], "", chance)
            with file_as(root / forgery.id, forgery.file), self._committed(tree) as commit:
                yield commit, False
        else:
            forgery = forged(range_list(self.ranges).block.records(), part, chance)
            if forgery.id == self.tree:
                with file_as(root / self.tree, forgery.file):
                    yield self.head, True
            else:
                with self._committed(forgery) as commit:
                    yield commit, False

    @contextmanager
    def _committed(self, tree: Forgery) -> Iterator[CommitId]:
        """Add a commit of a tree within the block."""
        state: Any = self.repo._context.refs._state  # type: ignore[attr-defined]
        commit = new_commit(
            parents=[state.commits[self.head]],
            committer="x",
            message="hostile",
            creation_date=1,
            meta_range_id=MetaRangeId(tree.id),
        )
        state.commits[commit.id] = commit
        try:
            with file_as(namespace_of(self.repo) / "_lakefs" / tree.id, tree.file):
                yield commit.id
        finally:
            del state.commits[commit.id]

    def _problem(self, commit: str, is_same: bool) -> str:
        """Return the error in the reads of a commit, or ""."""
        try:
            return self._disagreement(commit, is_same)
        except SparklakeError as error:
            return f"a read fails: {error!r}"

    def _disagreement(self, commit: str, is_same: bool) -> str:
        repo = self.repo
        listed = listing(repo, commit)
        if is_same and listed != self.sound:
            return "ls differs from the sound table"
        paths = list(listed)
        if paths != sorted(paths, key=str.encode):
            return "ls is out of order"
        single = self.repo  # Without what the listing has opened.
        for path in sorted({*paths, *self.sound, "k/", "k/0505"}):
            if _stat(single, commit, path) != listed.get(path):
                return f"stat of {path!r} differs from ls"
        for path in ("", "k/04", "k/1", "l"):
            some = {each: facts for each, facts in listed.items() if each.startswith(path)}
            if listing(self.repo, commit, path) != some:
                return f"ls below {path!r} differs"
        for left, right, lefts, rights in (
            (self.before, commit, self.other, listed),
            (commit, self.before, listed, self.other),
        ):
            changed = {each.path for each in self.repo.diff(left, right)}
            if changed != {p for p in {*lefts, *rights} if lefts.get(p) != rights.get(p)}:
                return "diff differs from ls"
        return ""


def _described(forgery: Forgery, sound: RangeInfo) -> RangeInfo:
    """Return the description of a forged range, as its writer would store it."""
    return replace(
        sound,
        id=RangeId(forgery.id),
        min_key=forgery.first_key,
        max_key=forgery.last_key or b"\0",
        count=forgery.size,
    )


def _scene(folder: Path) -> _Scene:
    lake = memory_lake()
    repo = lake.create_repository("lake", str(folder / "namespace"), range_records=64)
    main = repo.branch("main")
    main.put_many({f"k/{number:03}": b"%d" % (number % 7) for number in range(0, _OBJECTS, 2)})
    main.put("k/041", b"labelled", {"owner": "me", "a": "b"})
    before = main.commit("half")
    main.put_many({f"k/{number:03}": b"%d" % number for number in range(_OBJECTS)})
    head = main.commit("all")
    tree = repo._context.trees.get(head.meta_range_id)
    store = repo._context.store
    records: dict[str, list[Record]] = {
        each.id: read_range_file(store.get(f"_lakefs/{each.id}"), each.id).records()
        for each in tree.ranges
    }
    return _Scene(
        lake,
        tuple(tree.ranges),
        records,
        tree.id,
        head.id,
        before.id,
        listing(repo, head.id),
        listing(repo, before.id),
    )


def listing(repo: Repository, ref: str, prefix: str = "") -> Listing:
    """Return the listing of a commit without times and addresses: no id covers them."""
    return {each.path: _facts(each) for each in repo.objects(ref, prefix)}


def _stat(repo: Repository, ref: str, path: str) -> Facts | None:
    try:
        return _facts(repo.stat(ref, path))
    except ObjectNotFoundError:
        return None


def _facts(each: Any) -> Facts:
    return each.size, each.checksum, each.content_type, dict(each.metadata)


def _is_healthy(repo: Repository) -> bool:
    """Return whether a check of everything has no error and no warning; delete its report."""
    report = repo.check("content")
    shutil.rmtree(report.location.removeprefix("file://"))
    return all(KIND_FACTS[each].severity is Severity.LEFTOVER for each in report.kinds)


if __name__ == "__main__":
    main()
