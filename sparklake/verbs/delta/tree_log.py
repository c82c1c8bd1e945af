"""Logs of Delta tables in trees, for merges and diffs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, partial
from itertools import islice

from sparklake.errors import CorruptFileError
from sparklake.graveler.graph.virtual_base import is_disagreement
from sparklake.graveler.ids import MetaRangeId
from sparklake.metadata.delta.actions import Fields, FileKey
from sparklake.metadata.delta.checkpoints import Part, adds_in, checkpoint_parts, fields_in
from sparklake.metadata.delta.delta_commits import DeltaCommit, last_fields, parse_commit
from sparklake.metadata.delta.file_names import LogListing, log_listing
from sparklake.metadata.delta.paths import name_of
from sparklake.metadata.delta.union.log_sides import LogSide
from sparklake.metadata.union.conflicts import UnmergeableTableError
from sparklake.verbs.base.context import Context
from sparklake.verbs.delta.checkpoint_files import are_readable
from sparklake.verbs.tables.metadata_folders import MetadataFolder, read_metadata

MAX_COMMIT_BYTES = 256 * 1024 * 1024
"""The maximum size of commits since the sides diverged, in the driver's memory."""

_KINDS = ("metaData", "protocol")

Commits = Sequence[DeltaCommit]
"""The commits of one log in order."""


@dataclass(frozen=True)
class TreeLog(MetadataFolder):
    @cached_property
    def listing(self) -> LogListing[bytes]:
        start = len(self.folder)
        return log_listing((key[start:].decode(errors="replace"), key) for key in self.records)

    @property
    def commits(self) -> Mapping[int, bytes]:
        return self.listing.commits

    @cached_property
    def checkpoints(self) -> Mapping[int, Sequence[bytes]]:
        """The keys by version, without disputed checkpoints of common ancestors."""
        return {
            version: keys
            for version, keys in self.listing.checkpoints.items()
            if not any(is_disagreement(self.records[key]) for key in keys)
        }

    def has_checkpoint(self, version: int) -> bool:
        """Return whether a version has a checkpoint, readable if the log has all commits."""
        if version not in self._readable:
            files = [self.file(key) for key in self.checkpoints.get(version, ())]
            is_needed = not self.commits.keys() >= {*range(version + 1)}
            self._readable[version] = bool(files) and (is_needed or are_readable(files, "the log"))
        return self._readable[version]

    @cached_property
    def _readable(self) -> dict[int, bool]:
        return {}

    @property
    def latest(self) -> int:
        return max(self.commits, default=-1)

    def commit(self, version: int) -> DeltaCommit:
        key = self.commits[version]
        if is_disagreement(self.records[key]):
            raise UnmergeableTableError("the best common ancestors disagree on the table")
        return parse_commit(version, self.body(key))

    def since(self, version: int) -> tuple[DeltaCommit, ...]:
        versions = range(version, self.latest + 1)
        missing = [each for each in versions if each not in self.commits]
        if missing:
            raise UnmergeableTableError(f"the log no longer has commit {missing[0]}")
        if sum(self.file(self.commits[each]).size for each in versions) > MAX_COMMIT_BYTES:
            raise UnmergeableTableError(
                f"its new commits have more than {MAX_COMMIT_BYTES:,} bytes"
            )
        return tuple(map(self.commit, versions))

    def live(self, paths: Set[str] | None = None) -> dict[FileKey, Fields]:
        """Return the add actions of live files, by default all, at most one for each path."""
        later: dict[FileKey, Fields] = {}
        decided: set[str] = set()
        for version in range(self.latest, -1, -1):
            if paths is not None and paths <= decided:
                break
            if self.has_checkpoint(version):
                names = None if paths is None else paths - decided
                parts = self._parts(version, "add", "sidecar")
                adds = [(FileKey.of(each), each) for part in parts for each in adds_in(part, names)]
                return {key: each for key, each in adds if key.path not in decided} | later
            if version not in self.commits:
                raise UnmergeableTableError(f"the log no longer has commit {version}")
            commit = self.commit(version)
            for fields in commit.fields("add"):
                key = FileKey.of(fields)
                if key.path not in decided and (paths is None or key.path in paths):
                    later[key] = fields
            decided.update(key.path for key in (*commit.adds, *commit.removes))
        return later

    def named(self) -> set[str]:
        """Return the files that the log names, live or removed."""
        names = {
            key.path
            for each in self.since(min(self.commits))
            for key in (*each.adds, *each.removes)
        }
        # Commits before the first checkpoint may be cleaned up.
        for version in sorted(self.checkpoints)[:1]:
            for part in self._parts(version, "add", "remove", "sidecar"):
                for kind in ("add", "remove"):
                    names.update(name_of(fields["path"]) for fields in fields_in(part, kind))
        return names

    def find_domain(self, name: str) -> Fields | None:
        """Return the last action on a domain."""
        for version in range(self.latest, -1, -1):
            domains: Iterator[Fields]
            if self.has_checkpoint(version):
                parts = self._parts(version, "domainMetadata")
                domains = (each for part in parts for each in fields_in(part, "domainMetadata"))
            elif version in self.commits:
                domains = self.commit(version).fields("domainMetadata")
            else:
                raise UnmergeableTableError(f"the log no longer has commit {version}")
            match = next((each for each in domains if each.get("domain") == name), None)
            if match is not None or self.has_checkpoint(version):
                return match
        return None

    def had_file_beside(self, version: int, paths: Set[str]) -> bool:
        """Return whether the log shows a live file beside `paths` at a version."""
        decided = set(paths)
        for each in range(version, -1, -1):
            try:
                if self.has_checkpoint(each):
                    parts = self._parts(each, "add.path", "sidecar")
                    adds = (fields for part in parts for fields in fields_in(part, "add"))
                    return not {name_of(fields["path"]) for fields in adds} <= decided
                if each not in self.commits:
                    return False
                commit = self.commit(each)
            except UnmergeableTableError:
                return False
            if any(key.path not in decided for key in commit.adds):
                return True
            decided.update(key.path for key in commit.removes)
        return False

    def checkpoint_state(self, version: int) -> dict[str, Fields]:
        state: dict[str, Fields] = {}
        for part in self._parts(version, *_KINDS):
            for kind in _KINDS:
                state.update((kind, fields) for fields in islice(fields_in(part, kind), 1))
        return state

    def _parts(self, version: int, *columns: str) -> Iterator[Part]:
        start = len(self.folder)
        names = [key[start:].decode() for key in self.checkpoints[version]]
        try:
            yield from checkpoint_parts(names, self._log_file, *columns)
        except CorruptFileError as error:
            raise UnmergeableTableError(f"checkpoint {version} cannot be read ({error})") from error

    def _log_file(self, name: str) -> bytes:
        key = self.folder + name.encode()
        if key not in self.records:
            raise UnmergeableTableError(f"the log no longer has {name}")
        return self.body(key)


def read_log(context: Context, tree: MetaRangeId, folder: bytes) -> TreeLog:
    metadata = read_metadata(context, tree, folder)
    return TreeLog(folder, metadata.records, metadata.storage_namespace)


def log_sides(logs: Sequence[TreeLog]) -> tuple[LogSide, ...]:
    at = _divergence(logs)
    shared_state = cache(partial(_state, logs, at - 1))
    return tuple(_side(each, at, shared_state) for each in logs)


def commits_apart(logs: Sequence[TreeLog]) -> list[Commits]:
    at = _divergence(logs)
    return [each.since(at) if each.commits else () for each in logs]


def _divergence(logs: Sequence[TreeLog]) -> int:
    """Return the first different version of the sides.

    A side's log lacks the versions before its first one, because they were cleaned up. All sides
    must therefore have the version before the divergence, or differ from the start. Otherwise they
    may be different tables.
    """
    logs = [each for each in logs if each.commits]
    starts = [min(each.commits) for each in logs]
    latest = max((each.latest for each in logs), default=-1)
    at = latest + 1
    for version in range(min(starts, default=0), latest + 1):
        ids = {
            each.ids.get(each.commits.get(version, b""))
            for each, start in zip(logs, starts, strict=True)
            if version >= start
        }
        if len(ids) > 1:
            at = version
            break
    if at and any(at - 1 not in each.commits for each in logs):
        raise UnmergeableTableError("the log no longer has the commits where the sides diverged")
    return at


def _side(log: TreeLog, at: int, shared_state: Callable[[], dict[str, Fields]]) -> LogSide:
    if not log.commits:
        return LogSide()
    commits = log.since(at)
    state: dict[str, Fields] = {}
    for kind in _KINDS:
        fields = last_fields(commits, kind) or shared_state().get(kind)
        if fields is None:
            raise UnmergeableTableError(f"the log no longer contains the table's {kind}")
        state[kind] = fields
    return LogSide(
        commits,
        state["metaData"],
        state["protocol"],
        had_file_beside=partial(log.had_file_beside, at - 1),
        find_adds=log.live,
        find_domain=log.find_domain,
        start=shared_state,
        parent=partial(log.commit, at - 1) if at else lambda: None,
    )


def _state(logs: Sequence[TreeLog], version: int) -> dict[str, Fields]:
    """Return the metadata and protocol at a common version, as far as logs contain them."""
    state: dict[str, Fields] = {}
    for at in range(version, -1, -1):
        saved = next((each for each in logs if each.has_checkpoint(at)), None)
        if saved is not None:
            return {**saved.checkpoint_state(at), **state}
        log = next((each for each in logs if at in each.commits), None)
        if log is None:
            break
        commit = log.commit(at)
        for kind in _KINDS:
            fields = commit.last(kind)
            if fields is not None:
                state.setdefault(kind, fields)
        if len(state) == len(_KINDS):
            break
    return state
