"""The age of a dump, and newer lakeFS files."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from heapq import nlargest

from google.protobuf.message import DecodeError

from sparklake.errors import CorruptFileError, InvalidDumpError, MissingFileError, NewerDumpError
from sparklake.graveler.dumps.dump import DumpManifest, dump_roots
from sparklake.graveler.dumps.ref_files import META_RANGES, Entity, lakefs_kind, record_total
from sparklake.graveler.ports import ObjectStore, RefsSnapshot, StoredObject
from sparklake.graveler.refs.names import is_commit_id
from sparklake.graveler.sstable.range_files import tree_file_key
from sparklake.graveler.times import SECOND, text_of_second
from sparklake.verbs.base.context import now
from sparklake.verbs.dumps.verify_trees import EndOfFile, VerifiedTrees, in_threads

_MAX_READ = 1_000
_DAY = 24 * 60 * 60

_REMEDY = (
    "`lakectl refs-dump` prints the manifest of a new dump: pass it with --manifest. Restore this "
    "older state with --accept-old"
)


def age_note(refs: RefsSnapshot, manifest: DumpManifest, trees: VerifiedTrees) -> str:
    date = max((each.mtime for each in _own_files(manifest, trees)), default=0) // SECOND
    newest = max(refs.commits, key=lambda each: (each.creation_date, each.generation))
    days = max(0, now() - date) // _DAY
    ago = "today" if not days else f"{days:,} {'day' if days == 1 else 'days'} ago"
    return (
        f"the dump was written at {text_of_second(date)} ({ago}), and its newest commit is "
        f"{newest.id[:12]} of {text_of_second(newest.creation_date)}"
    )


def newer_problems(
    store: ObjectStore, manifest: DumpManifest, refs: RefsSnapshot, trees: VerifiedTrees
) -> Sequence[NewerDumpError]:
    """Return the error for an outdated dump, if any.

    A dump has all commits of its time, so one with more commits is newer. lakeFS writes trees only
    for commits, so a tree younger than all files of a dump probably belongs to a newer commit.
    sparklake's own files are ignored. The ends of the 1,000 youngest other tree files are read.
    """
    own = {each.key for each in _own_files(manifest, trees)}
    expected = own | trees.in_use
    tree_files = (each for each in trees.files.values() if is_commit_id(_id_of(each)))
    others = (each for each in tree_files if each.key not in expected)
    youngest = nlargest(_MAX_READ, others, key=lambda each: each.mtime)
    named_until = max(
        (trees.files[each].mtime for each in expected & trees.files.keys()), default=0
    )
    contents = list(in_threads(partial(_shown, store), youngest))
    commits = max((count for count, _ in contents), default=0)
    newer = [
        each.key
        for each, (_, is_tree) in zip(youngest, contents, strict=True)
        if is_tree and each.mtime > named_until
    ]
    signs = []
    if commits > len(refs.commits):
        signs.append(f"another dump of lakeFS there has {commits:,} commits")
    if newer:
        signs.append(f"lakeFS has since written trees there, such as {newer[0]}")
    if not signs:
        return ()
    problem = (
        f"the dump of {len(refs.commits):,} commits in {store.uri} is not the newest: "
        f"{' and '.join(signs)}. {_REMEDY}"
    )
    return [NewerDumpError(problem)]


def _own_files(manifest: DumpManifest, trees: VerifiedTrees) -> Sequence[StoredObject]:
    keys = [tree_file_key(each) for each, _ in dump_roots(manifest)]
    return [trees.files[key] for key in keys if key in trees.files]


def _id_of(stored: StoredObject) -> str:
    return stored.key.removeprefix(tree_file_key(""))


def _shown(store: ObjectStore, stored: StoredObject) -> tuple[int, bool]:
    """Return a lakeFS file's number of dumped commits, and whether it is a tree."""
    damages = CorruptFileError, DecodeError, InvalidDumpError, MissingFileError
    with suppress(*damages):  # A damaged file shows nothing.
        kind = lakefs_kind(stored.key, EndOfFile.read(store, stored))
        if kind == (Entity.COMMIT, META_RANGES):
            return record_total(store, _id_of(stored), Entity.COMMIT), False
        return 0, kind == ("", META_RANGES)
    return 0, False
