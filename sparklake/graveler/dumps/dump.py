"""Dumps of refs in lakeFS's format: branches, tags and commits beside the trees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from sparklake.errors import (
    CorruptFileError,
    InvalidDumpError,
    InvalidInputError,
    InvalidNameError,
    MissingFileError,
    SparklakeError,
)
from sparklake.graveler.commits import Commit, computed_id, is_generation
from sparklake.graveler.dumps.ref_files import (
    MESSAGES,
    Entity,
    find_ref_records,
    make_ref_tables,
    read_ref_records,
    ref_table_ids,
)
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.json_errors import decode_json
from sparklake.graveler.ports import BranchState, ObjectStore, RefsSnapshot, TagInfo
from sparklake.graveler.records import Record, ValueRecord, plain_value
from sparklake.graveler.refs.names import is_commit_id, validate_branch_name, validate_tag_name
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.visible import shell_word

_VERSION = 1  # The version of commits from which a merge has dest as its first parent.


@dataclass(frozen=True, slots=True)
class DumpManifest:
    """The metarange ids of a dump. "" is an empty metarange."""

    branches_meta_range_id: str
    commits_meta_range_id: str
    tags_meta_range_id: str


def manifest_bytes(manifest: DumpManifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(asdict(manifest)), indent=2)


def read_dump_manifest(store: ObjectStore) -> DumpManifest:
    try:
        body = store.get(REFS_MANIFEST_KEY)
    except MissingFileError as error:
        raise MissingFileError(
            f"{store.uri} has no {REFS_MANIFEST_KEY}, so it contains no dump: write one with "
            "`sparklake refs dump`. `lakectl refs-dump` prints it instead: pass it with --manifest"
        ) from error
    return parse_manifest(body, f"the manifest {REFS_MANIFEST_KEY} in {store.uri}")


def parse_manifest(body: bytes, what: str) -> DumpManifest:
    return decode_json(
        body, DumpManifest, what, "dump the refs again, or restore the file from a backup"
    )


def encode_refs(refs: RefsSnapshot) -> tuple[DumpManifest, dict[str, bytes]]:
    """Encode refs as a manifest and files by key. Equal refs produce identical bytes."""
    branches, branch_files = make_ref_tables(
        Entity.BRANCH, sorted(map(_branch_record, refs.branches))
    )
    commits, commit_files = make_ref_tables(
        Entity.COMMIT, sorted(map(_commit_record, refs.commits))
    )
    tags, tag_files = make_ref_tables(Entity.TAG, sorted(map(_tag_record, refs.tags)))
    return DumpManifest(branches, commits, tags), {**branch_files, **commit_files, **tag_files}


def _branch_record(each: BranchState) -> Record:
    message = MESSAGES[Entity.BRANCH](id=each.name, commit_id=each.commit_id, hidden=each.hidden)
    return _record(each.name, each.commit_id, message)


def _tag_record(each: TagInfo) -> Record:
    message = MESSAGES[Entity.TAG](id=each.name, commit_id=each.commit_id)
    return _record(each.name, each.commit_id, message)


def _commit_record(commit: Commit) -> Record:
    message = MESSAGES[Entity.COMMIT](
        id=commit.id,
        committer=commit.committer,
        message=commit.message,
        meta_range_id=commit.meta_range_id,
        metadata=dict(commit.metadata),
        parents=commit.parents,
        version=_VERSION,
        generation=commit.generation,
    )
    message.creation_date.seconds = commit.creation_date
    return _record(commit.id, commit.id, message)


def _record(key: str, identity: str, message: Any) -> Record:
    data = message.SerializeToString(deterministic=True)
    return key.encode(), plain_value(identity.encode(), data)


def dump_table_ids(store: ObjectStore, manifest: DumpManifest) -> list[str]:
    return [
        table_id
        for root, entity in dump_roots(manifest)
        for table_id in ref_table_ids(store, root, entity)
    ]


def dump_roots(manifest: DumpManifest) -> tuple[tuple[str, Entity], ...]:
    return (
        (manifest.branches_meta_range_id, Entity.BRANCH),
        (manifest.commits_meta_range_id, Entity.COMMIT),
        (manifest.tags_meta_range_id, Entity.TAG),
    )


def dump_trees(store: ObjectStore, manifest: DumpManifest) -> set[MetaRangeId]:
    """Return the trees of the dumped branches and tags."""
    heads: set[str] = set()
    for table_id, entity in dump_roots(manifest):
        if entity is not Entity.COMMIT:
            records = read_ref_records(store, table_id, entity)
            heads.update(_decoded_message(entity, each).commit_id for each in records)
    commits = read_ref_records(store, manifest.commits_meta_range_id, Entity.COMMIT)
    messages = (_decoded_message(Entity.COMMIT, each) for each in commits)
    return {MetaRangeId(each.meta_range_id) for each in messages if each.id in heads}


def _decoded_message(entity: Entity, record: ValueRecord) -> Any:
    try:
        return MESSAGES[entity].FromString(record.data)
    except DecodeError as error:
        raise CorruptFileError(
            f"the dump has a damaged {entity.value} {record.key!r}: dump the refs again"
        ) from error


def read_refs(store: ObjectStore, manifest: DumpManifest) -> RefsSnapshot:
    """Read a dump of sparklake or lakeFS, and report all problems in one error."""
    dump = find_dump(store, manifest, {})
    raise_all(dump.problems)
    return dump.refs


@dataclass(frozen=True, slots=True)
class FoundDump:
    """The valid part of a dump, and all problems with the rest.

    `unread` are the kinds of files that were unreadable, at least in part. `refused` are the new
    names of branches with invalid records.
    """

    refs: RefsSnapshot
    problems: Sequence[SparklakeError]
    unread: Collection[Entity]
    refused: Collection[str]


def find_dump(store: ObjectStore, manifest: DumpManifest, renames: Mapping[str, str]) -> FoundDump:
    """Return the valid part of a dump, and all problems with the rest.

    `renames` maps old names to new ones. A bare old name means both the branch and the tag of this
    name; `heads/NAME` is the branch alone, and `tags/NAME` the tag.
    """
    reading = _DumpReading(store, renames)
    commits = reading.records(manifest.commits_meta_range_id, Entity.COMMIT, reading.commit)
    branches = reading.records(manifest.branches_meta_range_id, Entity.BRANCH, reading.branch)
    tags = reading.records(manifest.tags_meta_range_id, Entity.TAG, reading.tag)
    refs = RefsSnapshot(
        tuple(sorted(branches, key=lambda each: each.name.encode())),
        tuple(sorted(tags, key=lambda each: each.name.encode())),
        tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
    )
    reading.check_renames()
    if Entity.COMMIT not in reading.unread:
        reading.check_graph(refs)
    return FoundDump(refs, reading.problems, reading.unread, reading.refused)


def name_problems(refs: RefsSnapshot) -> list[InvalidDumpError]:
    """Report names shared by several branches and tags."""
    counts = Counter(each.name for each in refs.named)
    return [
        InvalidDumpError(
            f"{count} branches and tags would have the name {name!r}: give one another name with "
            "--rename heads/OLD=NEW for a branch, or tags/OLD=NEW for a tag"
        )
        for name, count in counts.items()
        if count > 1
    ]


@dataclass(slots=True)
class _DumpReading:
    """A dump being read. Collects each problem once, by the ids of invalid commits."""

    store: ObjectStore
    renames: Mapping[str, str]
    problems: list[SparklakeError] = field(default_factory=list)
    unread: set[Entity] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    _invalid: set[str] = field(default_factory=set)
    _used: set[str] = field(default_factory=set)

    def records(
        self, table_id: str, entity: Entity, decode: Callable[[ValueRecord, Any], Any]
    ) -> list[Any]:
        records, problems = self._read(table_id, entity)
        if problems:
            self.problems += problems
            self.unread.add(entity)
        return [each for each in (self._decoded(one, entity, decode) for one in records) if each]

    def _read(
        self, table_id: str, entity: Entity
    ) -> tuple[list[ValueRecord], list[SparklakeError]]:
        if not table_id or is_commit_id(table_id):  # Both ids have the same form.
            return find_ref_records(self.store, table_id, entity)
        problem = InvalidDumpError(
            f"the manifest {REFS_MANIFEST_KEY} names the table {table_id!r}, which is not an id: "
            "dump the refs again, or restore the file from a backup"
        )
        return [], [problem]

    def _decoded(
        self, record: ValueRecord, entity: Entity, decode: Callable[[ValueRecord, Any], Any]
    ) -> Any:
        try:
            message = _message(record, entity)
            return decode(record, message)
        except InvalidDumpError as error:
            self.problems.append(error)
            name = record.key.decode(errors="replace")
            if entity is Entity.COMMIT:
                self._invalid.add(name)
            else:
                new_name = self._renamed(name, entity)
                self.refused.update([new_name] if entity is Entity.BRANCH else [])
            return None

    def branch(self, record: ValueRecord, message: Any) -> BranchState:
        name, commit_id = self._name(record, message, Entity.BRANCH, validate_branch_name)
        return BranchState(name, commit_id, hidden=message.hidden)

    def tag(self, record: ValueRecord, message: Any) -> TagInfo:
        return TagInfo(*self._name(record, message, Entity.TAG, validate_tag_name))

    def _name(
        self, record: ValueRecord, message: Any, entity: Entity, validate: Callable[[str], str]
    ) -> tuple[str, CommitId]:
        """Return the valid new name of a ref, and its commit."""
        if record.identity != message.commit_id.encode():
            raise InvalidDumpError(
                f"the {entity.value} {message.id!r} in the dump points to two commits"
            )
        name = self._renamed(message.id, entity)
        try:
            return validate(name), CommitId(message.commit_id)
        except InvalidNameError as error:
            raise InvalidDumpError(
                f"the dump contains an invalid name: {error}. Restore it under another name, "
                f"with --rename {shell_word(message.id)}=NEW"
            ) from error

    def _renamed(self, name: str, entity: Entity) -> str:
        for old in (f"{_KINDS[entity]}/{name}", name):
            if old in self.renames:
                self._used.add(old)
                return self.renames[old]
        return name

    def commit(self, record: ValueRecord, message: Any) -> Commit:
        commit = _commit(message)
        hashed = computed_id(commit)
        if not hashed == commit.id == record.identity.decode(errors="replace"):
            raise InvalidDumpError(
                f"the content of commit {commit.id} in the dump does not match its id"
            )
        _check_kept(commit, message.version)
        return commit

    def check_renames(self) -> None:
        """Report renames of unknown names. Unreadable files may contain any name."""
        self.problems += [
            InvalidInputError(f"the dump has no branch or tag {old!r} to rename")
            for old in sorted(self.renames.keys() - self._used)
            if self.unread.isdisjoint(_kinds_of(old))
        ]

    def check_graph(self, refs: RefsSnapshot) -> None:
        """Report missing commits and wrong generations."""
        generations: dict[str, int] = {}
        for commit in refs.commits:  # Sorted by generation: parents come first.
            problems = _graph_problems(commit, generations, self._invalid)
            self.problems += problems
            if problems or self._invalid.intersection(commit.parents):
                self._invalid.add(commit.id)
            generations[commit.id] = commit.generation
        for ref in refs.named:
            if ref.commit_id not in generations and ref.commit_id not in self._invalid:
                self.problems.append(
                    InvalidDumpError(
                        f"{ref.name!r} in the dump names the commit {ref.commit_id}, which "
                        "is missing"
                    )
                )


_KINDS = {Entity.BRANCH: "heads", Entity.TAG: "tags"}


def _kinds_of(old: str) -> list[Entity]:
    """Return the possible kinds of refs for a renamed old name."""
    kinds = [entity for entity, kind in _KINDS.items() if old.startswith(f"{kind}/")]
    return kinds or [*_KINDS]


def _message(record: ValueRecord, entity: Entity) -> Any:
    try:
        message = MESSAGES[entity].FromString(record.data)
    except DecodeError as error:
        raise InvalidDumpError(f"{record.key!r} in the dump is not a {entity.value}") from error
    if message.id.encode() != record.key:
        raise InvalidDumpError(
            f"{record.key!r} in the dump has the wrong content, the {entity.value} {message.id}"
        )
    return message


def _commit(message: Any) -> Commit:
    return Commit(
        id=CommitId(message.id),
        parents=tuple(map(CommitId, message.parents)),
        committer=message.committer,
        message=message.message,
        creation_date=message.creation_date.seconds,
        meta_range_id=MetaRangeId(message.meta_range_id),
        metadata=dict(sorted(message.metadata.items())),
        generation=message.generation,
    )


def _check_kept(commit: Commit, version: int) -> None:
    """Reject a commit with parts unknown to this version."""
    if version > _VERSION or (version < _VERSION and len(commit.parents) > 1):
        raise InvalidDumpError(
            f"the commit {commit.id} in the dump has the unknown version {version}: use a "
            "newer sparklake"
        )
    texts = (commit.committer, commit.message, *commit.metadata, *commit.metadata.values())
    if any("\0" in text for text in texts):
        raise InvalidDumpError(
            f"the commit {commit.id} in the dump has a NUL in its message or metadata"
        )
    if commit.meta_range_id and not is_commit_id(commit.meta_range_id):
        raise InvalidDumpError(f"the commit {commit.id} in the dump references no tree")


def _graph_problems(
    commit: Commit, generations: Mapping[str, int], invalid: Collection[str]
) -> list[InvalidDumpError]:
    """Report problems of a commit with its parents, except known `invalid` ones."""
    missing = [
        InvalidDumpError(
            f"the parent {each} of commit {commit.id} in the dump is missing or has no lower "
            "generation"
        )
        for each in commit.parents
        if each not in generations and each not in invalid
    ]
    if missing or any(each in invalid for each in commit.parents):
        return missing
    if is_generation(commit.generation, (generations[each] for each in commit.parents)):
        return []
    problem = (
        f"the commit {commit.id} in the dump cannot have the generation {commit.generation}, which "
        "must be above those of its parents"
    )
    return [InvalidDumpError(problem)]


_MAX_SHOWN = 100


def raise_all(problems: Sequence[SparklakeError]) -> None:
    """Raise the only problem, or one error for all, of their common class if possible."""
    if not problems:
        return
    first = problems[0]
    if len(problems) == 1:
        raise first
    kinds = {type(each) for each in problems}
    raise (type(first) if len(kinds) == 1 else InvalidDumpError)(problem_text(problems)) from first


def problem_text(problems: Sequence[SparklakeError]) -> str:
    if len(problems) == 1:
        return str(problems[0])
    more = len(problems) - _MAX_SHOWN
    listed = [f"({number}) {each}" for number, each in enumerate(problems[:_MAX_SHOWN], 1)]
    tail = f"; and {more:,} more" if more > 0 else ""
    return f"{len(problems):,} problems: {'; '.join(listed)}{tail}"
