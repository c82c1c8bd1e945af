"""Refs dumps: a dump is read back, and an inconsistent one is rejected."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.peer import PROGRAM
from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, SparklakeError
from sparklake.graveler.commits import Commit, first_commit, new_commit
from sparklake.graveler.dumps import dump as dumps
from sparklake.graveler.dumps import ref_files
from sparklake.graveler.dumps.dump import (
    DumpManifest,
    encode_refs,
    manifest_bytes,
    read_dump_manifest,
    read_refs,
)
from sparklake.graveler.dumps.ref_files import Entity, make_ref_tables, read_ref_records
from sparklake.graveler.ids import CommitId, MetaRangeId
from sparklake.graveler.ports import (
    BranchState,
    Layer,
    LayerKind,
    ObjectStore,
    RefsSnapshot,
    TagInfo,
)
from sparklake.graveler.sstable.foreign import read_foreign, table_properties
from sparklake.graveler.sstable.layout import compressed, small_block
from sparklake.graveler.sstable.range_files import lakefs_id, read_meta_range, tree_file_key
from sparklake.graveler.sstable.writer import TableFile
from sparklake.layout import REFS_MANIFEST_KEY
from sparklake.stores.objects import open_store
from sparklake.testing.folders import memory_folder
from tests.support.peer import needs_peer

TREE = MetaRangeId("a" * 64)
FIRST = first_commit(1_700_000_000)
SECOND = new_commit(
    parents=[FIRST],
    committer="zoë",
    message="second",
    creation_date=-1,
    meta_range_id=TREE,
    metadata={"b": "", "a": "1", "é": "\n"},
)
MERGE = new_commit(
    parents=[SECOND, FIRST],
    committer="",
    message="x" * 70_000,
    creation_date=1 << 40,
    meta_range_id=TREE,
)
REFS = RefsSnapshot(
    branches=(BranchState("dev:joe-bugfix-1234", SECOND.id), BranchState("main", MERGE.id)),
    tags=(TagInfo("V+1", FIRST.id), TagInfo("v1", SECOND.id)),
    commits=(FIRST, SECOND, MERGE),
)

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_:+=-]{0,40}", fullmatch=True)


@st.composite
def snapshots(draw: st.DrawFn) -> RefsSnapshot:
    """Draw refs over a random history, with several roots and unreferenced commits."""
    commits: list[Commit] = []
    for number in range(draw(st.integers(1, 12))):
        parents = (
            draw(st.lists(st.sampled_from(commits), max_size=3, unique_by=id)) if number else []
        )
        commits.append(
            new_commit(
                parents=parents,
                committer=draw(texts),
                message=f"{number} {draw(texts)}",
                creation_date=draw(st.integers(-(1 << 35), 1 << 37)),
                meta_range_id=draw(st.sampled_from([MetaRangeId(""), TREE])),
                metadata=draw(st.dictionaries(texts, texts, max_size=4)),
            )
        )
    branches = draw(st.dictionaries(names, st.sampled_from(commits), max_size=6))
    tags = draw(st.dictionaries(names, st.sampled_from(commits), max_size=6))
    return RefsSnapshot(
        tuple(BranchState(name, branches[name].id) for name in sorted(branches)),
        tuple(TagInfo(name, tags[name].id) for name in sorted(tags)),
        tuple(sorted(commits, key=lambda each: (each.generation, each.id))),
    )


@pytest.fixture
def store() -> Iterator[ObjectStore]:
    with memory_folder() as folder:
        yield open_store(str(folder))


def dumped(store: ObjectStore, refs: RefsSnapshot) -> DumpManifest:
    manifest, files = encode_refs(refs)
    store.put_many_if_absent(files)
    return manifest


# --- round trips ----------------------------------------------------------------------------------


@given(refs=snapshots(), seed=st.integers())
@settings(max_examples=60, deadline=None)
def test_a_dump_is_read_back_in_any_order(refs: RefsSnapshot, seed: int) -> None:
    with memory_folder() as folder:
        store = open_store(str(folder))
        assert read_refs(store, dumped(store, refs)) == refs
    shuffle = random.Random(seed)
    in_any_order = RefsSnapshot(
        *(
            tuple(shuffle.sample(part, len(part)))
            for part in (refs.branches, refs.tags, refs.commits)
        )
    )
    assert encode_refs(in_any_order) == encode_refs(refs)


def test_large_texts_and_unusual_dates_are_preserved(store: ObjectStore) -> None:
    assert read_refs(store, dumped(store, REFS)) == REFS


def test_staged_changes_are_not_dumped() -> None:
    dirty = replace(REFS.branches[0], layers=(Layer(1, LayerKind.ROWS, sealed=False),))
    assert encode_refs(replace(REFS, branches=(dirty, REFS.branches[1]))) == encode_refs(REFS)


def test_many_commits_fill_several_ranges_of_several_blocks(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ref_files, "_RANGE_BYTES", 100_000)
    commits = [FIRST]
    for number in range(1, 1500):
        commits.append(
            new_commit(
                parents=[commits[-1]],
                committer="ann",
                message=str(number),
                creation_date=number,
                meta_range_id=TREE,
            )
        )
    refs = RefsSnapshot((BranchState("main", commits[-1].id),), (), tuple(commits))
    manifest, files = encode_refs(refs)
    store.put_many_if_absent(files)
    (metarange,) = (files[tree_file_key(manifest.commits_meta_range_id)],)
    assert len(read_foreign("metarange", metarange)) > 3
    assert read_refs(store, manifest) == refs


def test_a_ref_table_describes_itself() -> None:
    manifest, files = encode_refs(REFS)
    table_id = manifest.branches_meta_range_id
    properties = table_properties("x", files[tree_file_key(table_id)])
    assert properties[b"entity"] == b"branch"
    assert properties[b"type"] == b"metaranges"
    assert properties[b"schema_name"] == b"io.treeverse.lakefs.graveler.BranchData"
    assert properties[b"count"] == b"1"
    assert properties[b"min_key"] == properties[b"max_key"] == b"main"


def test_an_empty_table_of_lakefs_is_read(store: ObjectStore) -> None:
    assert make_ref_tables(Entity.TAG, []) == ("", {})
    assert read_ref_records(store, "", Entity.TAG) == []
    user_properties = {
        "entity": "tag",
        "type": "metaranges",
        "schema_name": "x",
        "schema_definition": "{}",
    }
    file = TableFile(compressed)
    index = file.add(*compressed(small_block([])))
    properties = {name.encode(): text.encode() for name, text in user_properties.items()}
    table_id = lakefs_id((), user_properties)
    store.put_if_absent(tree_file_key(table_id), file.ended(index, properties))
    assert read_ref_records(store, table_id, Entity.TAG) == []
    with pytest.raises(InvalidDumpError, match="branch"):
        read_ref_records(store, table_id, Entity.BRANCH)


def test_an_empty_tree_of_lakefs_is_read(store: ObjectStore) -> None:
    table_id = MetaRangeId(lakefs_id((), {"type": "metaranges"}))
    tree = read_meta_range(store, table_id)
    assert (tree.id, len(tree.ranges)) == (table_id, 0)


@needs_peer
def test_lakefs_reads_our_ref_tables(store: ObjectStore, tmp_path: Path) -> None:
    _, files = encode_refs(REFS)
    for key, body in files.items():
        table = tmp_path / Path(key).name
        table.write_bytes(body)
        command = [PROGRAM, "inspect", "-entries", table]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        report, end = json.JSONDecoder().raw_decode(output)
        properties = table_properties(key, body)
        assert report["user_properties"] == {
            name.decode(): text.decode()
            for name, text in properties.items()
            if not name.startswith(b"rocksdb.")
        }
        rows = [json.loads(line) for line in output[end:].splitlines() if line]
        assert [(row["key"].encode(), bytes.fromhex(row["value_hex"])) for row in rows] == (
            read_foreign(key, body)
        )


# --- the manifest ---------------------------------------------------------------------------------


def test_a_manifest_has_the_form_of_lakefs(store: ObjectStore) -> None:
    manifest = DumpManifest("b", "c", "")
    store.replace(REFS_MANIFEST_KEY, manifest_bytes(manifest))
    assert store.get(REFS_MANIFEST_KEY).decode() == (
        '{\n  "branches_meta_range_id": "b",\n  "commits_meta_range_id": "c",\n'
        '  "tags_meta_range_id": ""\n}'
    )
    assert read_dump_manifest(store) == manifest


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"\xff", b'{"branches_meta_range_id": 1}'])
def test_a_malformed_manifest_is_rejected(store: ObjectStore, body: bytes) -> None:
    store.replace(REFS_MANIFEST_KEY, body)
    with pytest.raises(CorruptFileError, match="refs_manifest"):
        read_dump_manifest(store)


def test_a_missing_manifest_is_reported(store: ObjectStore) -> None:
    with pytest.raises(MissingFileError, match="no dump"):
        read_dump_manifest(store)


# --- what does not agree --------------------------------------------------------------------------


def with_commit(commit: Commit) -> RefsSnapshot:
    return replace(REFS, commits=(FIRST, SECOND, commit), branches=())


@pytest.mark.parametrize(
    ("refs", "words"),
    [
        (with_commit(replace(MERGE, message="other")), "does not match its id"),
        (with_commit(replace(MERGE, committer="other")), "does not match its id"),
        (with_commit(replace(MERGE, creation_date=5)), "does not match its id"),
        (with_commit(replace(MERGE, metadata={"a": "b"})), "does not match its id"),
        (with_commit(replace(MERGE, parents=(FIRST.id, SECOND.id))), "does not match its id"),
        (with_commit(replace(MERGE, meta_range_id=MetaRangeId(""))), "does not match its id"),
        (with_commit(replace(MERGE, generation=2**30 + 1)), "cannot have the generation"),
        (with_commit(replace(MERGE, generation=0)), "has no lower generation"),
        (replace(REFS, commits=(FIRST, MERGE)), "is missing or has"),
        (replace(REFS, commits=()), "names the commit"),
        (replace(REFS, commits=(FIRST, SECOND)), "'main' in the dump names the commit"),
        (replace(REFS, tags=(TagInfo("v", CommitId("0" * 64)),)), "'v' in the dump names"),
        (replace(REFS, tags=(TagInfo("a/b", FIRST.id),)), "cannot be the name of a tag"),
        (
            replace(REFS, branches=(BranchState("a..b", FIRST.id),)),
            "cannot be the name of a branch",
        ),
    ],
)
def test_an_inconsistent_dump_is_rejected(
    store: ObjectStore, refs: RefsSnapshot, words: str
) -> None:
    with pytest.raises(InvalidDumpError, match=words):
        read_refs(store, dumped(store, refs))


def test_a_text_with_nul_is_rejected(store: ObjectStore) -> None:
    odd = new_commit(
        parents=[], committer="", message="a\0b", creation_date=0, meta_range_id=MetaRangeId("")
    )
    with pytest.raises(InvalidDumpError, match="NUL"):
        read_refs(store, dumped(store, RefsSnapshot((), (), (odd,))))


def test_a_malformed_tree_id_is_rejected(store: ObjectStore) -> None:
    odd = new_commit(
        parents=[], committer="", message="", creation_date=0, meta_range_id=MetaRangeId("../x")
    )
    with pytest.raises(InvalidDumpError, match="no tree"):
        read_refs(store, dumped(store, RefsSnapshot((), (), (odd,))))


@pytest.mark.parametrize(("version", "refused"), [(0, {"merge"}), (2, {"merge", "other"})])
def test_merge_commits_of_an_unknown_version_are_rejected(
    store: ObjectStore, monkeypatch: pytest.MonkeyPatch, version: int, refused: set[str]
) -> None:
    monkeypatch.setattr(dumps, "_VERSION", version)
    merge = dumped(store, replace(REFS, branches=(), tags=()))
    other = dumped(store, RefsSnapshot((), (), (FIRST, SECOND)))
    monkeypatch.undo()
    for name, manifest in (("merge", merge), ("other", other)):
        if name in refused:
            with pytest.raises(InvalidDumpError, match=f"version {version}"):
                read_refs(store, manifest)
        else:
            assert read_refs(store, manifest).commits == (FIRST, SECOND)


@pytest.mark.parametrize("words", ["x", "../x", "A" * 64, "0" * 63])
def test_a_malformed_table_id_is_rejected(store: ObjectStore, words: str) -> None:
    with pytest.raises(InvalidDumpError, match=r"refs_manifest\.json names .*not an id"):
        read_refs(store, replace(dumped(store, REFS), tags_meta_range_id=words))


def test_a_table_of_the_wrong_entity_is_rejected(store: ObjectStore) -> None:
    manifest = dumped(store, REFS)
    swapped = DumpManifest(
        manifest.tags_meta_range_id, manifest.commits_meta_range_id, manifest.branches_meta_range_id
    )
    with pytest.raises(InvalidDumpError, match="does not contain metaranges of branch records"):
        read_refs(store, swapped)


# --- damage ---------------------------------------------------------------------------------------


def flipped(body: bytes) -> bytes:
    return body[:20] + bytes([body[20] ^ 1]) + body[21:]


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda body: None, MissingFileError),
        (lambda body: b"", CorruptFileError),
        (lambda body: body[:-1], CorruptFileError),
        (lambda body: body[: len(body) // 2], CorruptFileError),
        (flipped, CorruptFileError),
        (lambda body: bytes(len(body)), CorruptFileError),
    ],
    ids=["gone", "empty", "cut", "half", "flipped", "zeros"],
)
def test_any_damaged_table_is_reported(
    store: ObjectStore, damage: Callable[[bytes], bytes | None], error: type[SparklakeError]
) -> None:
    manifest, files = encode_refs(REFS)
    for key, body in files.items():
        store.put_many_if_absent(files)
        damaged = damage(body)
        store.delete(key)
        if damaged is not None:
            store.replace(key, damaged)
        with pytest.raises(error, match=Path(key).name):
            read_refs(store, manifest)
        store.delete(key)


def test_a_table_under_a_wrong_name_is_reported(store: ObjectStore) -> None:
    manifest, files = encode_refs(REFS)
    store.put_many_if_absent(files)
    keys = sorted(files)
    for key, other in zip(keys, keys[1:] + keys[:1], strict=True):
        store.replace(key, files[other])
        with pytest.raises(CorruptFileError, match=Path(key).name):
            read_refs(store, manifest)
        store.replace(key, files[key])
    assert read_refs(store, manifest) == REFS
