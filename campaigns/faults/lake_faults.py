"""Faults injected into a lake, one at a time, each undone at the end of its `with` block."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from campaigns.faults.damaged_tables import block_handles, damaged, with_block
from sparklake import Lake, Repository
from sparklake.errors import SparklakeError
from sparklake.graveler.blocks.block import block_of_records
from sparklake.graveler.commits import new_commit
from sparklake.graveler.dumps.dump import encode_refs, manifest_bytes
from sparklake.graveler.entries import AddressType, Entry, encode_entry, record_entry
from sparklake.graveler.ids import CommitId, MetaRangeId, file_id, zigzag
from sparklake.graveler.planning.change_summary import ChangeSummary, encode_summary, name_hashes
from sparklake.graveler.ports import BranchState, LayerKind, TagInfo, Write
from sparklake.graveler.ports.registers import PurgeState
from sparklake.graveler.ranges import RangeInfo, range_list
from sparklake.graveler.records import Record, decode_record, encode_record, tombstone
from sparklake.graveler.sstable.directory import DIRECTORY
from sparklake.graveler.sstable.layout import FOOTER_BYTES, ends_whole, meta_blocks
from sparklake.graveler.sstable.range_files import make_range, read_range_file
from sparklake.graveler.sstable.writer import make_table
from sparklake.layout import DUMP_SETTINGS_KEY, REFS_MANIFEST_KEY
from sparklake.rows.findings import FindingKind
from sparklake.testing.lakes import commit_all, namespace_of, put_all
from sparklake.verbs.checks.leftovers import dumped_file_ids

DAY = 24 * 3600


@dataclass(frozen=True)
class Expected:
    """The kind of a finding, with one subject and the path, if any."""

    kinds: frozenset[FindingKind]
    subject: str
    path: str = ""


def expected(kind: FindingKind, subject: str, path: str = "") -> Expected:
    return Expected(frozenset([kind]), subject, path)


@dataclass
class Scene:
    """A healthy repository in a memory lake, with every kind of content."""

    repo: Repository
    outside: Path
    rng: random.Random

    @property
    def state(self) -> Any:
        return self.repo._context.refs._state  # type: ignore[attr-defined]

    @property
    def root(self) -> Path:
        return namespace_of(self.repo)

    def table(self, table_id: str) -> Path:
        return self.root / "_lakefs" / table_id

    @property
    def retained(self) -> list[Any]:
        return [each for each in self.state.commits.values() if each.id not in self.state.expired]

    def trees(self) -> list[str]:
        """Return the metaranges of retained commits and staged runs."""
        metaranges = {each.meta_range_id for each in self.retained if each.meta_range_id}
        for branch in self.state.branches.values():
            metaranges |= {each.meta_range_id for each in branch.layers if each.meta_range_id}
        return sorted(metaranges)

    def ranges(self, tree: str) -> list[RangeInfo]:
        return list(self.repo._context.trees.get(MetaRangeId(tree)).ranges)

    def any_tree(self) -> str:
        return self.rng.choice(self.trees())

    def any_range(self) -> RangeInfo:
        infos = {each.id: each for tree in self.trees() for each in self.ranges(tree)}
        return self.rng.choice([infos[each] for each in sorted(infos)])

    def objects(self, *, external: bool = False) -> list[tuple[Path, str]]:
        """Return the files of committed objects, with their paths."""
        files = {}
        for ref in ("main@", "dev@"):
            for each in self.repo.objects(ref):
                file = Path(each.address.removeprefix("file://"))
                if file.exists() and file.is_relative_to(self.root / "data") is not external:
                    files[file] = each.path
        return sorted(files.items())


def healthy_scene(lake: Lake, folder: Path, seed: int) -> Scene:
    """Return a repository with merges, imports, purges, expired commits, staging and a dump."""
    repo = lake.create_repository("lake", str(folder / "namespace"), range_records=4)
    outside = folder / "outside"
    outside.mkdir()
    for number in range(8):
        (outside / f"file-{number}").write_bytes(b"outside %d" % number)
    main = repo.branch("main")
    commit_all(main, {f"old/{number}": b"old %d" % number for number in range(12)}, "old")
    commit_all(main, {"secret": b"to purge", "old/1": b"newer"}, "secret")
    commit_all(main, {"secret": None, **{f"old/{number}": None for number in range(6)}}, "fewer")
    repo.settings.set_retention(0)
    repo.collect_garbage(grace=timedelta())
    repo.settings.clear_retention()
    commit_all(main, {f"k/{number:02}": b"object %d" % number for number in range(30)}, "base")
    commit_all(main, {"private": b"also to purge", "k/03": b"third"}, "private")
    commit_all(main, {"private": None}, "not private")
    repo.purge(["private"], "asked")
    main.put("labelled", b"with labels", {"owner": "me", "a": "b"})
    main.commit("labels")
    main.import_objects(str(outside), "imported/")
    repo.create_tag("v1", "main")
    dev = repo.create_branch("dev", "main")
    commit_all(dev, {"k/05": b"changed on dev", "dev/1": b"new on dev"}, "dev")
    commit_all(main, {"k/20": b"changed on main"}, "main")
    repo.merge("dev", "main")
    put_all(dev, {"staged/1": b"a row", "k/06": None})
    bulk = repo.create_branch("bulk", "main")
    put_all(bulk, {f"bulk/{number}": b"bulk" for number in range(3)})
    repo.branch("bulk").delete_prefix("old/")
    repo.dump_refs()
    return Scene(repo, outside, random.Random(seed))


# --- files ----------------------------------------------------------------------------------------


@contextmanager
def file_as(path: Path, body: bytes | None) -> Iterator[None]:
    """Give a file other bytes, or remove it. Other links to the old file stay as they are."""
    before = path.read_bytes() if path.exists() else None
    times = path.stat() if before is not None else None
    path.unlink(missing_ok=True)
    if body is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        if before is not None and times is not None:
            path.write_bytes(before)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def broken(scene: Scene, body: bytes) -> bytes:
    """Return other bytes for a file: a flipped byte, a cut, nothing, or junk."""
    way = scene.rng.randrange(4)
    if way == 0 and body:
        changed = bytearray(body)
        changed[scene.rng.randrange(len(body))] ^= scene.rng.randrange(1, 256)
        return bytes(changed)
    if way == 1:
        return body[: scene.rng.randrange(len(body))]
    return b"" if way == 2 else scene.rng.randbytes(200)


def broken_table(scene: Scene, body: bytes) -> bytes:
    """Return other bytes for a table. Changes of the footer that no reader sees do not count."""
    while True:
        changed = broken(scene, body)
        only_footer = changed[:-FOOTER_BYTES] == body[:-FOOTER_BYTES]
        if not (only_footer and ends_whole(changed)):
            return changed


Injection = Iterator[Expected]
Inject = Callable[[Scene], Injection]


def _missing_tree(scene: Scene) -> Injection:
    tree = scene.any_tree()
    with file_as(scene.table(tree), None):
        yield expected(FindingKind.TREE_MISSING, tree)


def _damaged_tree(scene: Scene) -> Injection:
    tree = scene.any_tree()
    file = scene.table(tree)
    with file_as(file, broken_table(scene, file.read_bytes())):
        yield expected(FindingKind.TREE_DAMAGED, tree)


def _swapped_tree(scene: Scene) -> Injection:
    tree, other = scene.rng.sample(scene.trees(), 2)
    with file_as(scene.table(tree), scene.table(other).read_bytes()):
        yield expected(FindingKind.TREE_DAMAGED, tree)


def _missing_range(scene: Scene) -> Injection:
    info = scene.any_range()
    with file_as(scene.table(info.id), None):
        yield expected(FindingKind.RANGE_MISSING, info.id, info.min_key.decode())


def _damaged_range(scene: Scene) -> Injection:
    info = scene.any_range()
    file = scene.table(info.id)
    with file_as(file, broken_table(scene, file.read_bytes())):
        yield expected(FindingKind.RANGE_DAMAGED, info.id, info.min_key.decode())


def _swapped_range(scene: Scene) -> Injection:
    info, other = scene.any_range(), scene.any_range()
    while other.id == info.id:
        other = scene.any_range()
    with file_as(scene.table(info.id), scene.table(other.id).read_bytes()):
        yield expected(FindingKind.RANGE_DAMAGED, info.id, info.min_key.decode())


def _misdescribed(
    scene: Scene, edit: Callable[[RangeInfo], RangeInfo]
) -> tuple[str, bytes, RangeInfo]:
    """Return a metarange, and its file with another description of one range. The id stays."""
    tree = scene.any_tree()
    infos = scene.ranges(tree)
    at = scene.rng.randrange(len(infos))
    changed = edit(infos[at])
    return (
        tree,
        make_table(range_list([*infos[:at], changed, *infos[at + 1 :]]).block).file,
        infos[at],
    )


def _wrong_description(scene: Scene) -> Injection:
    edits: list[Callable[[RangeInfo], RangeInfo]] = [
        lambda info: replace(info, count=info.count + scene.rng.choice([-1, 1, 100])),
        lambda info: replace(
            info,
            min_key=info.min_key + b"0" if info.count > 1 else info.min_key,
            count=info.count + (info.count == 1),
        ),
        lambda info: replace(info, tombstones=info.tombstones + 1),
    ]
    tree, body, info = _misdescribed(scene, scene.rng.choice(edits))
    with file_as(scene.table(tree), body):
        yield expected(FindingKind.RANGE_METADATA_MISMATCH, info.id)


def _overlap(scene: Scene) -> Injection:
    tree = scene.rng.choice([each for each in scene.trees() if len(scene.ranges(each)) > 1])
    infos = scene.ranges(tree)
    at = scene.rng.randrange(1, len(infos))
    changed = replace(infos[at], min_key=infos[at - 1].max_key)
    body = make_table(range_list([*infos[:at], changed, *infos[at + 1 :]]).block).file
    with file_as(scene.table(tree), body):
        yield expected(FindingKind.RANGES_OVERLAP, tree)


def _records(scene: Scene, info: RangeInfo) -> list[Record]:
    body = scene.table(info.id).read_bytes()
    return [tuple(each) for each in read_range_file(body, info.id).records()]  # type: ignore[misc]


def _wrong_entry(scene: Scene) -> Injection:
    """Give a record the entry of a different object. Its id and the range's id stay."""
    while True:
        info = scene.any_range()
        records = _records(scene, info)
        live = [at for at, each in enumerate(records) if decode_record(*each).identity]
        if live:
            break
    at = scene.rng.choice(live)
    entry = record_entry(records[at])
    edit: Mapping[str, Any] = scene.rng.choice(
        [
            {"size": entry.size + 1},
            {"checksum": "0" * 32},
            {"content_type": "text/other"},
            {"metadata": {"other": "label"}},
        ]
    )
    decoded = decode_record(*records[at])
    data = encode_entry(replace(entry, **edit))
    records[at] = encode_record(decoded.key, decoded.identity, data)
    changed, body = make_range(block_of_records(records))
    assert changed.id == info.id
    with file_as(scene.table(info.id), body):
        yield expected(FindingKind.RECORD_DAMAGED, info.id)


def _repaired_block(scene: Scene) -> Injection:
    """Change bytes of a range, and repair the block checksums.

    Times and addresses are covered by no id. Of these changes, only those of addresses can be
    found, because the objects are elsewhere.
    """
    rng = scene.rng
    while True:
        info = scene.any_range()
        file = scene.table(info.id)
        body = file.read_bytes()
        handles = block_handles(body)
        harm = [(rng.random(), rng.random(), rng.randrange(256))]
        changed = damaged(body, handles, harm)
        if changed != body and not _same_but_time(body, changed, info):
            break
    with file_as(file, changed):
        yield Expected(
            frozenset(
                {
                    FindingKind.RANGE_DAMAGED,
                    FindingKind.RECORD_DAMAGED,
                    FindingKind.OBJECT_MISSING,
                    FindingKind.OBJECT_SIZE_DIFFERS,
                    FindingKind.OBJECT_CONTENT_DIFFERS,
                    FindingKind.ADDRESS_UNUSABLE,
                    FindingKind.OBJECT_UNREADABLE,
                }
            ),
            info.id,
        )


def _same_but_time(body: bytes, changed: bytes, info: RangeInfo) -> bool:
    """Return whether a change alters only times or unused bytes."""
    return bool(_meaning(body, info) == _meaning(changed, info))


def _meaning(body: bytes, info: RangeInfo) -> Any:
    try:
        block = read_range_file(body, info.id)
        records = block.records()
        ids = block.ids.tolist()
        return ids, [
            (
                key,
                decode_record(key, stored).identity,
                stored[-32:],
                _shown(record_entry((key, stored))) if stored[:2] != b"\0\0" else None,
            )
            for key, stored in records
        ]
    except (SparklakeError, ValueError, IndexError) as error:
        return type(error)


def _shown(entry: Entry) -> tuple[Entry, bool]:
    """Return an entry without its time, and with whether its address is relative, not how."""
    kind = AddressType.BY_PREFIX_DEPRECATED
    return replace(entry, mtime=0, address_type=kind), entry.is_relative


def _wrong_directory(scene: Scene) -> Injection:
    """Give a data block another key in the directory of its range. All ids stay."""
    info = scene.any_range()
    file = scene.table(info.id)
    body = file.read_bytes()
    handle = meta_blocks(body)[DIRECTORY]
    content = bytearray(body[handle.offset : handle.offset + handle.size + 1])
    content[-2] ^= 1  # the last byte of the last key, before the kind of compression
    with file_as(file, with_block(body, handle, bytes(content))):
        yield expected(FindingKind.RANGE_DAMAGED, info.id, info.min_key.decode())


def _truncated_description(scene: Scene) -> Injection:
    """Truncate a record's value in a metarange. All ids stay."""
    tree = scene.any_tree()
    records = range_list(scene.ranges(tree)).block.records()
    at = scene.rng.randrange(len(records))
    decoded = decode_record(*records[at])
    records[at] = (decoded.key, zigzag(2 * len(decoded.id)) + decoded.id)
    body = make_table(block_of_records(records)).file
    with file_as(scene.table(tree), body):
        yield expected(FindingKind.TREE_DAMAGED, tree)


def _lost_expired_tree(scene: Scene) -> Injection:
    """Remove the tree of an expired, uncollected commit."""
    retained = scene.trees()
    trees = [scene.state.commits[each].meta_range_id for each in sorted(scene.state.expired)]
    tree = scene.rng.choice([each for each in trees if each and each not in retained])
    with file_as(scene.table(tree), None):
        yield expected(FindingKind.TREE_MISSING, tree)


def _wrong_summary(scene: Scene) -> Injection:
    """Leave a changed key out of a commit's change summary."""
    summaries = scene.state.change_summaries
    retained = [each.id for each in scene.retained if each.id in summaries and each.parents]
    commit = scene.rng.choice(sorted(set(retained) - {scene.retained[0].id}))
    summary = encode_summary(ChangeSummary(name_hashes([b""])))
    with changed_state(scene, change_summaries={**summaries, commit: summary}):
        yield expected(FindingKind.SUMMARY_WRONG, commit)


def _committed_tombstone(scene: Scene) -> Injection:
    """Add a commit with a tombstone in its tree."""
    info, body = make_range(block_of_records([tombstone(b"k/gone")]))
    table = make_table(range_list([info]).block)
    tree = file_id(range_list([info]).block.ids.data)
    head = scene.state.commits[scene.state.branches["main"].commit_id]
    commit = new_commit(
        parents=[head],
        committer="x",
        message="bad",
        creation_date=1,
        meta_range_id=MetaRangeId(tree),
    )
    with (
        file_as(scene.table(info.id), body),
        file_as(scene.table(tree), table.file),
        changed_state(scene, commits={**scene.state.commits, commit.id: commit}),
    ):
        yield expected(FindingKind.TOMBSTONE_COMMITTED, info.id, "k/gone")


# --- objects --------------------------------------------------------------------------------------


def _missing_object(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects())
    with file_as(file, None):
        yield expected(FindingKind.OBJECT_MISSING, f"file://{file}", path)


def _folder_for_object(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects())
    with file_as(file, None):
        file.mkdir()
        try:
            yield expected(FindingKind.OBJECT_MISSING, f"file://{file}", path)
        finally:
            file.rmdir()


def _resized_object(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects())
    body = file.read_bytes()
    longer = body + scene.rng.randbytes(3)
    with file_as(file, scene.rng.choice([body[:-1], b"", longer])):
        yield expected(FindingKind.OBJECT_SIZE_DIFFERS, f"file://{file}", path)


def _changed_object(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects())
    with file_as(file, _flipped(scene, file)):
        yield expected(FindingKind.OBJECT_CONTENT_DIFFERS, f"file://{file}", path)


def _flipped(scene: Scene, file: Path) -> bytes:
    body = bytearray(file.read_bytes())
    body[scene.rng.randrange(len(body))] ^= scene.rng.randrange(1, 256)
    return bytes(body)


def _missing_import(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects(external=True))
    with file_as(file, None):
        yield expected(FindingKind.OBJECT_MISSING, f"file://{file}", path)


def _resized_import(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects(external=True))
    with file_as(file, b"another length of it"):
        yield expected(FindingKind.OBJECT_SIZE_DIFFERS, f"file://{file}", path)


def _endless_link(scene: Scene) -> Injection:
    file, path = scene.rng.choice(scene.objects(external=True))
    with file_as(file, None):
        file.symlink_to(file)
        yield expected(FindingKind.OBJECT_UNREADABLE, f"file://{file}", path)


def _staged_address(scene: Scene) -> Injection:
    """Stage a row with an address in an unknown store."""
    (layer,) = (each for each in scene.state.branches["dev"].layers if each.kind is LayerKind.ROWS)
    rows = scene.state.rows[layer.id]
    live = next(each for each in rows.items() if not each[1].startswith(b"\0\0"))
    entry = record_entry(live)
    moved = replace(
        entry, address=f"hdfs://bucket/{scene.rng.randrange(9)}", address_type=AddressType.FULL
    )
    key, stored = encode_record(
        b"staged/elsewhere", decode_record(*live).identity, encode_entry(moved)
    )
    with changed_state(scene, rows={**scene.state.rows, layer.id: {**rows, key: stored}}):
        yield expected(FindingKind.ADDRESS_UNUSABLE, moved.address, "staged/elsewhere")


def _damaged_receipt(scene: Scene) -> Injection:
    files = sorted((scene.root / "_sparklake" / "purges").rglob("*.parquet"))
    file = scene.rng.choice(files)
    with file_as(file, file.read_bytes()[: scene.rng.randrange(60)]):
        key = file.relative_to(scene.root).as_posix()
        yield expected(FindingKind.RECEIPT_DAMAGED, key)


# --- refs -----------------------------------------------------------------------------------------


@contextmanager
def changed_state(scene: Scene, **parts: Any) -> Iterator[None]:
    """Give the ref store other contents."""
    before = {name: copy(getattr(scene.state, name)) for name in parts}
    for name, each in parts.items():
        setattr(scene.state, name, each)
    try:
        yield
    finally:
        for name, each in before.items():
            setattr(scene.state, name, each)


def _any_commit(scene: Scene, *, with_parents: bool = False) -> Any:
    commits = sorted(scene.state.commits.values(), key=lambda each: each.id)
    return scene.rng.choice([each for each in commits if each.parents or not with_parents])


def _changed_commit(scene: Scene) -> Injection:
    commit = _any_commit(scene)
    edit: Mapping[str, Any] = scene.rng.choice(
        [
            {"message": commit.message + "!"},
            {"committer": "somebody else"},
            {"creation_date": commit.creation_date + 1},
            {"metadata": {"more": "labels"}},
            {"meta_range_id": next(e for e in scene.trees() if e != commit.meta_range_id)},
        ]
    )
    commits = {**scene.state.commits, commit.id: replace(commit, **edit)}
    with changed_state(scene, commits=commits):
        yield expected(FindingKind.COMMIT_DAMAGED, commit.id)


def _wrong_generation(scene: Scene) -> Injection:
    commit = _any_commit(scene)
    other = replace(commit, generation=commit.generation - scene.rng.choice([1, 7, 1000]))
    with changed_state(scene, commits={**scene.state.commits, commit.id: other}):
        yield expected(FindingKind.GENERATION_WRONG, commit.id)


def _without(scene: Scene, commit_id: str) -> dict[CommitId, Any]:
    return {name: each for name, each in scene.state.commits.items() if name != commit_id}


def _missing_parent(scene: Scene) -> Injection:
    child = _any_commit(scene, with_parents=True)
    with changed_state(scene, commits=_without(scene, scene.rng.choice(child.parents))):
        yield expected(FindingKind.PARENT_MISSING, child.id)


def _lost_commit(scene: Scene) -> Injection:
    commit = _any_commit(scene)
    with changed_state(scene, commits=_without(scene, commit.id)):
        yield expected(FindingKind.COMMIT_LOST, commit.id)


def _ref_to_nothing(scene: Scene) -> Injection:
    missing = CommitId(scene.rng.randbytes(32).hex())
    kind = scene.rng.choice(["branches", "tags"])
    refs = getattr(scene.state, kind)
    name = scene.rng.choice(sorted(refs))
    moved = {**refs, name: replace(refs[name], commit_id=missing)}
    with changed_state(scene, **{kind: moved}):
        yield expected(FindingKind.REF_WITHOUT_COMMIT, name)


def _moved_ref(scene: Scene) -> Injection:
    kind = scene.rng.choice(["branches", "tags"])
    refs = getattr(scene.state, kind)
    name = scene.rng.choice(sorted(refs))
    others = [each.id for each in scene.retained if each.id != refs[name].commit_id]
    moved = {**refs, name: replace(refs[name], commit_id=scene.rng.choice(sorted(others)))}
    with changed_state(scene, **{kind: moved}):
        yield expected(FindingKind.LOG_DIFFERS, name)


def _expired_head(scene: Scene) -> Injection:
    name = scene.rng.choice(sorted(scene.state.branches))
    expired = {**scene.state.expired, scene.state.branches[name].commit_id: 0}
    with changed_state(scene, expired=expired):
        yield expected(FindingKind.REF_EXPIRED, name)


def _no_default_branch(scene: Scene) -> Injection:
    branches = {name: each for name, each in scene.state.branches.items() if name != "main"}
    with changed_state(scene, branches=branches):
        yield expected(FindingKind.DEFAULT_BRANCH_MISSING, "main")


def _lost_ref(scene: Scene) -> Injection:
    kind = scene.rng.choice(["branches", "tags"])
    refs = getattr(scene.state, kind)
    name = scene.rng.choice(sorted(refs))
    rest = {each: ref for each, ref in refs.items() if each != name}
    with changed_state(scene, **{kind: rest}):
        yield expected(FindingKind.REF_LOST, name)


def _branch_behind(scene: Scene) -> Injection:
    """Let a branch be at an earlier commit, as in an older backup of the ref store."""
    name = scene.rng.choice(["dev", "main"])
    head = scene.state.branches[name]
    before = scene.state.commits[head.commit_id].parents[0]
    moves = [each for each in scene.state.operations if each.ref == name]
    last = next(each for each in reversed(moves) if each.to_commit == head.commit_id)
    log = [each for each in scene.state.operations if each.sequence < last.sequence]
    branches = {**scene.state.branches, name: replace(head, commit_id=before)}
    with changed_state(scene, branches=branches, operations=log):
        yield expected(FindingKind.BRANCH_BEHIND, name)


def _lost_log(scene: Scene) -> Injection:
    name = scene.rng.choice(sorted({**scene.state.branches, **scene.state.tags}))
    log = [each for each in scene.state.operations if each.ref != name]
    with changed_state(scene, operations=log):
        yield expected(FindingKind.LOG_DIFFERS, name)


def _damaged_row(scene: Scene) -> Injection:
    layers = [
        each.id
        for name in sorted(scene.state.branches)
        for each in scene.state.branches[name].layers
        if each.kind is LayerKind.ROWS and scene.state.rows[each.id]
    ]
    layer = scene.rng.choice(layers)
    rows = scene.state.rows[layer]
    key = scene.rng.choice(sorted(rows))
    stored = bytearray(rows[key])
    way = scene.rng.randrange(3)
    if way == 0:
        stored[-scene.rng.randrange(1, 33)] ^= scene.rng.randrange(1, 256)
    elif way == 1:
        del stored[scene.rng.randrange(len(stored)) :]
    else:
        stored = bytearray(scene.rng.randbytes(60))
    with changed_state(scene, rows={**scene.state.rows, layer: {**rows, key: bytes(stored)}}):
        yield expected(FindingKind.STAGED_ROW_DAMAGED, "", key.decode())


def _changed_mark(scene: Scene) -> Injection:
    mark = scene.root / "_lakefs" / "dummy"
    body = mark.read_bytes()
    other = body.replace(b'"uid":"', b'"uid":"0')
    with file_as(mark, scene.rng.choice([b"", b"{}", other, None])):
        yield expected(FindingKind.NAMESPACE_MARKER_WRONG, scene.repo.info.storage_namespace)


def _damaged_marker(scene: Scene) -> Injection:
    marker = scene.root / "_sparklake" / "gc" / "open"
    with file_as(marker, scene.rng.choice([b"", b"\xff\xfe", b"../elsewhere"])):
        yield expected(FindingKind.GC_MARKER_DAMAGED, "_sparklake/gc/open")


# --- dumps ----------------------------------------------------------------------------------------


def _dump_tables(scene: Scene) -> list[Path]:
    store = scene.repo._context.store
    return [scene.table(each) for each in sorted(dumped_file_ids(store)) if each]


def _damaged_dump(scene: Scene) -> Injection:
    files = [*_dump_tables(scene), scene.root / REFS_MANIFEST_KEY]
    file = scene.rng.choice(files)
    body = file.read_bytes()
    with file_as(file, body[: scene.rng.randrange(1, len(body) - 2)]):
        yield expected(FindingKind.DUMP_DAMAGED, "")


def _missing_dump_table(scene: Scene) -> Injection:
    with file_as(scene.rng.choice(_dump_tables(scene)), None):
        yield expected(FindingKind.DUMP_DAMAGED, "")


def _damaged_dump_settings(scene: Scene) -> Injection:
    file = scene.root / DUMP_SETTINGS_KEY
    body = file.read_bytes()
    with file_as(file, body[: scene.rng.randrange(len(body))]):
        yield expected(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY)


def _missing_dump_settings(scene: Scene) -> Injection:
    with file_as(scene.root / DUMP_SETTINGS_KEY, None):
        yield expected(FindingKind.DUMP_DAMAGED, DUMP_SETTINGS_KEY)


def _missing_manifest(scene: Scene) -> Injection:
    with file_as(scene.root / REFS_MANIFEST_KEY, None):
        yield expected(FindingKind.DUMP_DAMAGED, REFS_MANIFEST_KEY)


def _foreign_dump(scene: Scene) -> Injection:
    """Write the manifest of a dump with a tag unknown to the settings."""
    refs = scene.repo._context.refs.snapshot()
    tag = TagInfo(f"by-others-{scene.rng.randrange(10**9)}", refs.branches[0].commit_id)
    bare = tuple(BranchState(each.name, each.commit_id) for each in refs.branches)
    manifest, files = encode_refs(replace(refs, branches=bare, tags=(*refs.tags, tag)))
    with ExitStack() as stack:
        for key, body in {**files, REFS_MANIFEST_KEY: manifest_bytes(manifest)}.items():
            stack.enter_context(file_as(scene.root / key, body))
        yield expected(FindingKind.FOREIGN_DUMP, REFS_MANIFEST_KEY)


# --- leftovers ------------------------------------------------------------------------------------


def _temporary_file(scene: Scene) -> Injection:
    name = f"{int(time.time()) - scene.rng.randrange(3 * DAY)}-{scene.rng.randbytes(8).hex()}-0"
    with file_as(scene.root / ".sparklake-tmp" / name, b"half a write"):
        yield expected(FindingKind.TEMPORARY_FILE, f".sparklake-tmp/{name}")


def _probe(scene: Scene) -> Injection:
    key = f"_sparklake/probe-{scene.rng.randbytes(16).hex()}"
    with file_as(scene.root / key, b""):
        yield expected(FindingKind.TEMPORARY_FILE, key)


def _unfinished_check(scene: Scene) -> Injection:
    check_id = f"20260101T000000Z-{scene.rng.randbytes(4).hex()}"
    folder = scene.root / "_sparklake/checks/open" / check_id
    with file_as(folder / "summary.json", b"{}"):
        yield expected(FindingKind.TEMPORARY_FILE, check_id)
    shutil.rmtree(folder)


def _stray_object(scene: Scene) -> Injection:
    file = scene.root / "data" / scene.rng.randbytes(16).hex()
    with file_as(file, b"stray"):
        yield expected(FindingKind.OBJECT_YOUNG, f"file://{file}")


def _old_stray_object(scene: Scene) -> Injection:
    file = scene.root / "data" / scene.rng.randbytes(16).hex()
    with file_as(file, b"stray"):
        os.utime(file, (1, 1))
        yield expected(FindingKind.OBJECT_UNREFERENCED, f"file://{file}")


def _stray_table(scene: Scene) -> Injection:
    table_id = scene.rng.randbytes(32).hex()
    with file_as(scene.table(table_id), b"anything"):
        yield expected(FindingKind.TREE_FILE_UNREFERENCED, table_id)


def _open_write(scene: Scene) -> Injection:
    name = scene.rng.randbytes(8).hex()
    write = Write(name, f"data/{name}", "main", "somebody", 1)
    with changed_state(scene, writes={**scene.state.writes, name: write}):
        yield expected(FindingKind.WRITE_OPEN, name)


def _expired_branch(scene: Scene) -> Injection:
    branches = scene.state.branches
    expired = replace(branches["bulk"], expires=1)
    with changed_state(scene, branches={**branches, "bulk": expired}):
        yield expected(FindingKind.BRANCH_EXPIRED, "bulk")


def _unfinished_purge(scene: Scene) -> Injection:
    (purge,) = scene.state.purges
    with changed_state(scene, purges=[replace(purge, state=PurgeState.DELETING)]):
        yield expected(FindingKind.PURGE_UNFINISHED, purge.id)


def _unfinished_collection(scene: Scene) -> Injection:
    with file_as(scene.root / "_sparklake" / "gc" / "open", b"20260101T000000Z-00000000"):
        yield expected(FindingKind.COLLECTION_UNFINISHED, "20260101T000000Z-00000000")


FAULTS: dict[str, Inject] = {
    name.removeprefix("_"): inject
    for name, inject in {
        each.__name__: each
        for each in (
            _missing_tree,
            _damaged_tree,
            _swapped_tree,
            _missing_range,
            _damaged_range,
            _swapped_range,
            _wrong_description,
            _overlap,
            _wrong_entry,
            _repaired_block,
            _wrong_directory,
            _truncated_description,
            _lost_expired_tree,
            _wrong_summary,
            _committed_tombstone,
            _missing_object,
            _folder_for_object,
            _resized_object,
            _changed_object,
            _missing_import,
            _resized_import,
            _endless_link,
            _staged_address,
            _damaged_receipt,
            _changed_commit,
            _wrong_generation,
            _missing_parent,
            _lost_commit,
            _ref_to_nothing,
            _moved_ref,
            _expired_head,
            _no_default_branch,
            _lost_ref,
            _branch_behind,
            _lost_log,
            _damaged_row,
            _changed_mark,
            _damaged_marker,
            _damaged_dump,
            _missing_dump_table,
            _damaged_dump_settings,
            _missing_dump_settings,
            _missing_manifest,
            _foreign_dump,
            _temporary_file,
            _probe,
            _unfinished_check,
            _stray_object,
            _old_stray_object,
            _stray_table,
            _open_write,
            _expired_branch,
            _unfinished_purge,
            _unfinished_collection,
        )
    }.items()
}
"""The classes of faults by name, each as an injector."""


@contextmanager
def injected(scene: Scene, fault: str) -> Iterator[Expected]:
    """Inject a fault for the time of a `with` block; yield the expected finding."""
    yield from FAULTS[fault](scene)
