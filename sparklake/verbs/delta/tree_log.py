"""Logs of Delta tables in trees, for merges and diffs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from sparklake.delta_log.actions import FileKey, Said, adds_in, has_any, said_in
from sparklake.delta_log.delta_commits import DeltaCommit, UnmergeableTableError, parse_commit
from sparklake.delta_log.file_names import LogListing, log_listing
from sparklake.delta_log.paths import name_of
from sparklake.delta_log.union.log_sides import LogSide
from sparklake.graveler.blocks.align import restricted
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import RECORD_ID_BYTES, MetaRangeId
from sparklake.graveler.keys import prefix_interval
from sparklake.graveler.parquet_files import native_reader
from sparklake.graveler.ranges import RangeInfo, overlapping
from sparklake.graveler.sstable.range_files import read_together
from sparklake.rows.objects import object_info
from sparklake.verbs.base.content import read_body
from sparklake.verbs.base.context import Context

MAX_COMMIT_BYTES = 256 * 1024 * 1024
"""The most bytes of commits since the sides diverged. The driver keeps them in memory."""

_KINDS = ("metaData", "protocol")

Commits = Sequence[DeltaCommit]
"""The commits of one log in order."""


@dataclass(frozen=True)
class TreeLog:
    """The files of a table's log in one tree, by key."""

    folder: bytes
    records: Mapping[bytes, bytes]
    storage_namespace: str

    @cached_property
    def ids(self) -> dict[bytes, bytes]:
        return {key: stored[-RECORD_ID_BYTES:] for key, stored in self.records.items()}

    @cached_property
    def listing(self) -> LogListing[bytes]:
        start = len(self.folder)
        return log_listing((key[start:].decode(errors="replace"), key) for key in self.records)

    @property
    def commits(self) -> Mapping[int, bytes]:
        """The keys of the commits by version."""
        return self.listing.commits

    @cached_property
    def checkpoints(self) -> Mapping[int, Sequence[bytes]]:
        """The keys of the checkpoints by version. Some checkpoints have several parts.

        A checkpoint that common ancestors disagree on is skipped, because any log may lack it.
        """
        return {
            version: keys
            for version, keys in self.listing.checkpoints.items()
            if not any(is_disagreement(self.records[key]) for key in keys)
        }

    @property
    def latest(self) -> int:
        """The latest version, -1 if there is none."""
        return max(self.commits, default=-1)

    def body(self, key: bytes) -> bytes:
        return read_body(object_info((key, self.records[key]), self.storage_namespace), "the log")

    def commit(self, version: int) -> DeltaCommit:
        key = self.commits[version]
        if is_disagreement(self.records[key]):
            raise UnmergeableTableError("the best common ancestors disagree on the table")
        return parse_commit(version, self.body(key))

    def since(self, version: int) -> tuple[DeltaCommit, ...]:
        """Return the commits starting at a version."""
        versions = range(version, self.latest + 1)
        gone = [each for each in versions if each not in self.commits]
        if gone:
            raise UnmergeableTableError(f"the log no longer has commit {gone[0]}")
        sizes = (
            object_info((key, self.records[key]), self.storage_namespace).size
            for key in (self.commits[each] for each in versions)
        )
        if sum(sizes) > MAX_COMMIT_BYTES:
            raise UnmergeableTableError(
                f"its new commits have more than {MAX_COMMIT_BYTES:,} bytes"
            )
        return tuple(map(self.commit, versions))

    def adds(self, wanted: frozenset[FileKey]) -> dict[FileKey, Said]:
        """Return the add actions of the wanted live files of the latest version."""
        live = self.live({key.path for key in wanted})
        return {key: said for key, said in live.items() if key in wanted}

    def live(self, paths: Set[str] | None = None) -> dict[FileKey, Said]:
        """Return the add actions of the live files: all, or those at the given paths.

        A path has at most one live file, with any deletion vector.
        """
        found: dict[FileKey, Said] = {}
        decided: set[str] = set()
        for version in range(self.latest, -1, -1):
            if paths is not None and paths <= decided:
                break
            if version in self.checkpoints:
                saved = self._checkpoint_adds(version, None if paths is None else paths - decided)
                return {key: each for key, each in saved.items() if key.path not in decided} | found
            if version not in self.commits:
                raise UnmergeableTableError(f"the log no longer has commit {version}")
            commit = self.commit(version)
            for said in commit.said("add"):
                key = FileKey.of(said)
                if key.path not in decided and (paths is None or key.path in paths):
                    found[key] = said
            decided.update(key.path for key in (*commit.adds, *commit.removes))
        return found

    def had_file_beside(self, version: int, paths: Set[str]) -> bool:
        """Return whether the log shows a live file outside of `paths` at a version."""
        decided = set(paths)
        for each in range(version, -1, -1):
            try:
                if each in self.checkpoints:
                    return not self._checkpoint_paths(each) <= decided
                if each not in self.commits:
                    return False
                commit = self.commit(each)
            except UnmergeableTableError:
                return False
            if any(key.path not in decided for key in commit.adds):
                return True
            decided.update(key.path for key in commit.removes)
        return False

    def _checkpoint_paths(self, version: int) -> set[str]:
        found: set[str] = set()
        for table in self._parts(version, "add.path", "sidecar"):
            if has_any(table, "sidecar"):
                raise UnmergeableTableError(f"checkpoint {version} has its files in sidecars")
            found.update(name_of(each["path"]) for each in said_in(table, "add"))
        return found

    def _checkpoint_adds(self, version: int, paths: Set[str] | None) -> dict[FileKey, Said]:
        found: dict[FileKey, Said] = {}
        for table in self._parts(version):
            if has_any(table, "sidecar"):
                raise UnmergeableTableError(f"checkpoint {version} has its files in sidecars")
            found.update((FileKey.of(said), said) for said in adds_in(table, paths))
        return found

    def checkpoint_state(self, version: int) -> dict[str, Said]:
        """Return the metadata and protocol of a checkpoint."""
        found: dict[str, Said] = {}
        for table in self._parts(version):
            for kind in _KINDS:
                found.update((kind, said) for said in islice(said_in(table, kind), 1))
        return found

    def _parts(self, version: int, *columns: str) -> Iterator[pa.Table]:
        for key in self.checkpoints[version]:
            if key.endswith(b".json"):
                raise UnmergeableTableError(f"checkpoint {version} has an unsupported format")
            body = self.body(key)
            try:
                file = pq.ParquetFile(native_reader(body))
                names = [each for each in file.schema_arrow.names if each in _READ]
                yield file.read(columns=list(columns) or names)
            except (pa.ArrowException, OSError) as error:
                raise UnmergeableTableError(
                    f"checkpoint {version} cannot be read ({error})"
                ) from error


_READ = (*_KINDS, "add", "sidecar")


def has_log(context: Context, ranges: Iterable[RangeInfo], folder: bytes) -> bool:
    """Return whether the given ranges have a key of the log in a folder."""
    opened = (context.open_ranges.get_many([each])[0] for each in ranges)
    return any(len(restricted(each.block, prefix_interval(folder))) for each in opened)


def read_log(context: Context, tree: MetaRangeId, folder: bytes) -> TreeLog:
    interval = prefix_interval(folder)
    ranges = overlapping(context.trees.get(tree).ranges, interval)
    groups = map(context.open_ranges.get_many, read_together(ranges))
    blocks = (restricted(each.block, interval) for group in groups for each in group)
    records = dict(record for block in blocks for record in block.records())
    return TreeLog(folder, records, context.info.storage_namespace)


def log_sides(logs: Sequence[TreeLog]) -> tuple[LogSide, ...]:
    """Return each side of a table since they diverged."""
    at = _parting(logs)
    shared = _Shared(logs, at)
    return tuple(_side(each, at, shared) for each in logs)


def commits_apart(logs: Sequence[TreeLog]) -> list[Commits]:
    """Return the commits of each side since they diverged."""
    at = _parting(logs)
    return [each.since(at) if each.commits else () for each in logs]


def _parting(logs: Sequence[TreeLog]) -> int:
    """Return the first different version of the sides.

    A side's log lacks the versions before its first one, because they were cleaned up. So all sides
    must have the version before the divergence, or they must differ from the start. Otherwise they
    may be different tables.
    """
    held = [each for each in logs if each.commits]
    starts = [min(each.commits) for each in held]
    latest = max((each.latest for each in held), default=-1)
    at = latest + 1
    for version in range(min(starts, default=0), latest + 1):
        said = {
            each.ids.get(each.commits.get(version, b""))
            for each, start in zip(held, starts, strict=True)
            if version >= start
        }
        if len(said) > 1:
            at = version
            break
    if at and any(at - 1 not in each.commits for each in held):
        raise UnmergeableTableError("the log no longer has the commits where the sides diverged")
    return at


def _side(log: TreeLog, at: int, shared: _Shared) -> LogSide:
    if not log.commits:
        return LogSide()
    commits = log.since(at)
    found: dict[str, Said] = {}
    for kind in _KINDS:
        said = next((each for each in (c.last(kind) for c in commits[::-1]) if each), None)
        found[kind] = said if said is not None else shared.said(kind)
    before = partial(log.had_file_beside, shared.version)
    return LogSide(commits, found["metaData"], found["protocol"], before, log.adds)


class _Shared:
    """The state before the sides diverge, searched backwards on demand."""

    def __init__(self, logs: Sequence[TreeLog], at: int) -> None:
        self._logs = logs
        self._at = at

    @property
    def version(self) -> int:
        """The last common version, -1 if there is none."""
        return self._at - 1

    def said(self, kind: str) -> Said:
        """Return the metadata or the protocol."""
        found = self._state.get(kind)
        if found is None:
            raise UnmergeableTableError(f"the log no longer contains the table's {kind}")
        return found

    @cached_property
    def _state(self) -> dict[str, Said]:
        found: dict[str, Said] = {}
        for version in range(self._at - 1, -1, -1):
            saved = next((each for each in self._logs if version in each.checkpoints), None)
            if saved is not None:
                return {**saved.checkpoint_state(version), **found}
            log = next((each for each in self._logs if version in each.commits), None)
            if log is None:
                break
            commit = log.commit(version)
            for kind in _KINDS:
                said = commit.last(kind)
                if said is not None:
                    found.setdefault(kind, said)
            if len(found) == len(_KINDS):
                break
        return found
