"""Bad input: which error, what it says, and that nothing was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparklake
from sparklake import SparklakeError
from sparklake.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    DirtyBranchError,
    ImmutableRefError,
    InvalidImportError,
    InvalidInputError,
    InvalidKeyError,
    InvalidNameError,
    InvalidRefError,
    InvalidRowsError,
    InvalidUriError,
    MergeConflictError,
    MissingFileError,
    NamespaceInUseError,
    NoChangesError,
    NotFoundError,
    NothingToDoError,
    ObjectNotFoundError,
    ProtectedError,
    PurgeBlockedError,
    RaceLostError,
    ReadOnlyError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from sparklake.testing.folders import memory_folder
from sparklake.testing.lakes import memory_lake, postgres_lake, stage_table
from tests.scenarios.bad_data import DATA
from tests.scenarios.bad_edits import CHOSEN, HISTORIES, JOININGS, SETTINGS, TRANSFERS
from tests.scenarios.bad_files import FILES
from tests.scenarios.bad_verbs import LAKE_VERBS, MOVES, READS, REPLAYS, RESETS
from tests.scenarios.lab import SURROGATE, Case, Lab, Verb, ambiguous, make_lab
from tests.scenarios.refusals import never_refused, noted_refusals
from tests.support.cases import for_each
from tests.support.lakes import fingerprint


@pytest.fixture(scope="module")
def small_lab(scratch: Path) -> Iterator[Lab]:
    with memory_folder() as folder:
        yield make_lab(memory_lake(), folder)


@pytest.fixture
def untouched(small_lab: Lab) -> dict[str, Any]:
    return fingerprint(small_lab.lake, small_lab.folder)


@pytest.fixture(scope="module")
def postgres_lab(dsn: str, scratch: Path) -> Iterator[Lab]:
    with memory_folder() as folder, postgres_lake(dsn) as lake:
        yield make_lab(lake, folder)


@pytest.fixture
def unchanged_lab(postgres_lab: Lab) -> Iterator[Lab]:
    """Check at the end that no case has left a trace."""
    before = fingerprint(postgres_lab.lake, postgres_lab.folder)
    yield postgres_lab
    assert fingerprint(postgres_lab.lake, postgres_lab.folder) == before


LONG = "x" * 1025


# --- what is tried --------------------------------------------------------------------------------


def create(name: str, place: str = "new", branch: str = "main") -> Verb:
    return lambda lab: lab.lake.create_repository(name, str(lab.folder / place), branch)


def branch(name: str, source: str = "main") -> Verb:
    return lambda lab: lab.repo.create_branch(name, source)


def tag(name: str, ref: str = "main") -> Verb:
    return lambda lab: lab.repo.create_tag(name, ref)


def resolve(ref: str) -> Verb:
    return lambda lab: lab.repo.resolve(ref)


def put(path: str, body: bytes = b"", **options: Any) -> Verb:
    return lambda lab: lab.main.put(path, body, **options)


def put_file(path: str, file: str = "source/file", **options: Any) -> Verb:
    return lambda lab: lab.main.put_file(path, lab.folder / file, **options)


def load(source: str, branch: str = "main", prefix: str = "in") -> Verb:
    return lambda lab: lab.ghost(branch).import_objects(str(lab.folder / source), prefix)


def merge(source: str, dest: str, *more: Any, **options: Any) -> Verb:
    return lambda lab: lab.repo.merge(source, dest, *more, **options)


def commit(message: str = "m", **options: Any) -> Verb:
    return lambda lab: lab.repo.branch("dirty").commit(message, **options)


def texts(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def pairs(key: str, value: str | None) -> pa.Array:
    return pa.array([[(key, value)]], pa.map_(pa.string(), pa.string()))


def table(**columns: pa.Array | None) -> pa.Table:
    """Return a row that could be staged, but for the columns given; None leaves one out."""
    row = {"path": "k", "size": 1, "address": "data/x", "checksum": "c"}
    good = stage_table([row])
    merged = {name: good.column(name) for name in good.schema.names} | columns
    return pa.table({name: each for name, each in merged.items() if each is not None})


def stage(**columns: Any) -> Verb:
    return lambda lab: lab.main.stage(
        table(
            **{
                name: each if each is None or isinstance(each, pa.Array) else pa.array(each)
                for name, each in columns.items()
            }
        )
    )


NAMES: list[Case] = [
    *(
        (
            f"repository {name[:9]!r}",
            InvalidNameError,
            "cannot be the name of a repository.*3 to 63",
            verb,
        )
        for name in ("Upper", "ab", "a" * 64, "lake\n", "-ake", "a_b", SURROGATE)
        for verb in (
            create(name),
            lambda lab, name=name: lab.lake.repository(name),
            lambda lab, name=name: lab.lake.delete_repository(name),
        )
    ),
    (
        "default branch",
        InvalidNameError,
        "cannot be the name of a branch",
        create("lake", branch="-main"),
    ),
    *(
        (
            f"{kind.__name__} {name[:9]!r}",
            InvalidNameError,
            f"name of a {kind.__name__}.*{words}",
            kind(name),
        )
        for kind in (branch, tag)
        for name, words in (
            ("", "use letters"),
            ("-x", "starting with a letter"),
            ("a..b", r"without '\.\.'"),
            ("a/b", "'/' ends the ref.*use 'a-b'"),
            ("a b", "use letters"),
            ("a~1", "use letters"),
            ("a^", "use letters"),
            ("a@", "use letters"),
            ("a$", "use letters"),
            ("x.lock", "not ending"),
            ("x.", "not ending"),
            ("x" * 256, "at most 255"),
            ("f" * 64, "looks like a commit id"),
            ("a\0", "use letters"),
            ("a\n", "use letters"),
            ("é", "use letters"),
            (SURROGATE, "use letters"),
        )
    ),
]

ABSENT: list[Case] = [
    (
        "repository",
        RepositoryNotFoundError,
        "'nope'.*list",
        lambda lab: lab.lake.repository("nope"),
    ),
    (
        "repository to delete",
        RepositoryNotFoundError,
        "'nope'",
        lambda lab: lab.lake.delete_repository("nope"),
    ),
    ("branch", RefNotFoundError, "'nope'.*list", lambda lab: lab.repo.branch("nope")),
    ("branch to delete", RefNotFoundError, "'nope'", lambda lab: lab.repo.delete_branch("nope")),
    (
        "branch to rename",
        RefNotFoundError,
        "'nope'",
        lambda lab: lab.repo.rename_branch("nope", "other"),
    ),
    ("tag to delete", RefNotFoundError, "'nope'", lambda lab: lab.repo.delete_tag("nope")),
    (
        "source of a branch",
        RefNotFoundError,
        "no branch, tag or commit 'nope'",
        branch("x", "nope"),
    ),
    ("ref of a tag", RefNotFoundError, "no branch, tag or commit 'nope'", tag("x", "nope")),
    ("commit id", RefNotFoundError, "0{64}", resolve("0" * 64)),
    ("ancestor", RefNotFoundError, "'main~999' goes back beyond the first", resolve("main~999")),
    ("second parent", RefNotFoundError, "1 parents, not 2", resolve("main^2")),
    ("listing", RefNotFoundError, "'nope'", lambda lab: lab.repo.objects("nope")),
    ("left", RefNotFoundError, "'nope'", lambda lab: lab.repo.diff("nope", "main")),
    ("right", RefNotFoundError, "'nope'", lambda lab: lab.repo.diff("main", "nope")),
    ("staged diff", RefNotFoundError, "'nope'", lambda lab: lab.repo.diff_uncommitted("nope")),
    ("staged diff of a tag", RefNotFoundError, "'v1'", lambda lab: lab.repo.diff_uncommitted("v1")),
    ("log", RefNotFoundError, "'nope'", lambda lab: list(lab.repo.log("nope"))),
    ("show", RefNotFoundError, "'nope'", lambda lab: lab.repo.show("nope")),
    ("merge bases", RefNotFoundError, "'nope'", lambda lab: lab.repo.merge_bases("nope", "main")),
    ("merge base", RefNotFoundError, "'nope'", lambda lab: lab.repo.merge_base("main", "nope")),
    ("merge source", RefNotFoundError, "'nope'", merge("nope", "main")),
    ("merge dest", RefNotFoundError, "no branch 'nope'", merge("main", "nope")),
    ("merge into a tag", RefNotFoundError, "no branch 'v1'", merge("dev", "v1")),
    ("import branch", RefNotFoundError, "no branch 'nope'", load("source", "nope")),
    ("put branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").put("k", b"")),
    ("delete branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").delete("k")),
    ("stage branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").stage(table())),
    ("prefix branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").delete_prefix("")),
    ("status", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").status()),
    ("status against", RefNotFoundError, "'nope'", lambda lab: lab.main.status("nope")),
    ("reset branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").reset()),
    ("commit branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").commit("m")),
    ("object", ObjectNotFoundError, "'main'.*'nope'", lambda lab: lab.repo.stat("main", "nope")),
    (
        "bytes",
        ObjectNotFoundError,
        "'main'.*'nope'",
        lambda lab: lab.repo.read_bytes("main", "nope"),
    ),
    ("url of nothing", ObjectNotFoundError, "'nope'", lambda lab: lab.repo.url("main", "nope")),
    ("url of a file", InvalidInputError, "no presigned", lambda lab: lab.repo.url("main", "d/1")),
    ("id prefix", AmbiguousRefError, "add more", lambda lab: lab.repo.resolve(ambiguous(lab))),
    (
        "id prefix of a branch",
        AmbiguousRefError,
        "several commit ids start with .*: add more",
        lambda lab: lab.repo.create_branch("x", ambiguous(lab)),
    ),
]

PRESENT: list[Case] = [
    ("repository", AlreadyExistsError, "'lab' already exists: choose another name", create("lab")),
    ("branch", AlreadyExistsError, "branch 'dev' already", branch("dev")),
    ("tag", AlreadyExistsError, "tag 'v1' already", tag("v1", "dev")),
    (
        "default branch",
        ProtectedError,
        "'main' is the default branch",
        lambda lab: lab.repo.delete_branch("main"),
    ),
]

REFS: list[Case] = [
    (f"{ref[:12]!r} {number}", InvalidRefError, words, verb)
    for ref, words in (
        ("", "not a ref"),
        ("~1", "not a ref"),
        ("main ", "not a ref"),
        ("main~x", "not a ref"),
        ("main$~1", "combines"),
        ("main$@", "combines"),
        ("main~1@", "combines"),
        ("main@~1", "combines"),
        ("main~" + "9" * 10, "too large"),
        ("v1@", "'@' must follow a branch"),
        ("$", "not a ref"),
        ("main\0", "not a ref"),
        (SURROGATE, "not a ref"),
    )
    for number, verb in enumerate(
        (
            resolve(ref),
            branch("x", ref),
            tag("x", ref),
            merge(ref, "main"),
            lambda lab, ref=ref: lab.repo.diff("main", ref),
            lambda lab, ref=ref: lab.repo.stat(ref, "d/1"),
        )
    )
]

STAGED: list[Case] = [
    (name, InvalidRefError, r"'dev\$' means staged changes, not a commit: write 'dev'", verb)
    for name, verb in (
        ("resolve", resolve("dev$")),
        ("branch", branch("x", "dev$")),
        ("tag", tag("x", "dev$")),
        ("merge", merge("dev$", "main")),
        ("left", lambda lab: lab.repo.diff("dev$", "main")),
        ("right", lambda lab: lab.repo.diff("main", "dev$")),
        ("log", lambda lab: list(lab.repo.log("dev$"))),
        ("merge base", lambda lab: lab.repo.merge_base("main", "dev$")),
        ("show", lambda lab: lab.repo.show("dev$")),
        ("merge bases", lambda lab: lab.repo.merge_bases("dev$", "main")),
        ("tree", lambda lab: lab.repo.tree("dev$")),
    )
]

NAMESPACES: list[Case] = [
    (
        "taken",
        NamespaceInUseError,
        "namespace of a repository: choose",
        create("x-x", "lab/namespace"),
    ),
    (
        "inside",
        NamespaceInUseError,
        "is inside .*lab/namespace,.* of a repository: choose a location outside",
        create("x-x", "lab/namespace/data/d"),
    ),
    ("around", NamespaceInUseError, "overlaps.*'lab': choose", create("x-x", "lab")),
    ("link", NamespaceInUseError, "namespace of a repository: choose", create("x-x", "link")),
    (
        "below a file",
        InvalidInputError,
        "source/file is a file",
        create("x-x", "source/file/namespace"),
    ),
    ("a file", InvalidInputError, "source/file is a file", create("x-x", "source/file")),
    ("root of the file system", InvalidUriError, "choose a directory", create("x-x", "/")),
    ("NUL", InvalidUriError, "NUL", create("x-x", "a\0b")),
    ("surrogate", InvalidUriError, "not UTF-8: rename", create("x-x", SURROGATE)),
    ("empty", InvalidUriError, "empty: use", lambda lab: lab.lake.create_repository("x-x", "")),
    (
        "scheme",
        InvalidUriError,
        "hdfs://.*: use",
        lambda lab: lab.lake.create_repository("x-x", "hdfs://b"),
    ),
    (
        "range records",
        InvalidInputError,
        "range_records must be 1 to",
        lambda lab: lab.lake.create_repository("x-x", str(lab.folder / "new"), range_records=0),
    ),
]

BAD_ANYWHERE = (
    ("", "empty; add"),
    (LONG, "1025 bytes; at most 1024"),
    ("é" * 513, "1026 bytes; at most"),
)
BAD_IF_NEW = {
    "../x": "leave the store's root",
    "a/../b": "leave the store's root",
    "..": "leave the store's root",
    "/abs": "leave the store's root",
    "a\0b": "no NUL",
}
"""Keys that other programs write. They can be read and removed."""

BAD_KEYS = (*BAD_ANYWHERE, *BAD_IF_NEW.items())

KEYS: list[Case] = [
    *(
        (f"{path[:9]!r} {number}", InvalidKeyError, words, verb)
        for path, words in (*BAD_KEYS, (SURROGATE, "not UTF-8; rename"))
        for number, verb in enumerate((put(path), put_file(path)))
    ),
    *(
        (f"read {path[:9]!r} {number}", InvalidKeyError, words, verb)
        for path, words in (*BAD_ANYWHERE, (SURROGATE, "not UTF-8; rename"))
        for number, verb in enumerate(
            (
                lambda lab, path=path: lab.main.delete(path),
                lambda lab, path=path: lab.repo.stat("main", path),
                lambda lab, path=path: lab.repo.read_bytes("main", path),
            )
        )
    ),
    *(
        (f"read {path!r} {number}", ObjectNotFoundError, "no object", verb)
        for path in BAD_IF_NEW
        for number, verb in enumerate(
            (
                lambda lab, path=path: lab.repo.stat("main", path),
                lambda lab, path=path: lab.repo.read_bytes("main", path),
            )
        )
    ),
    *(
        (f"staged {path[:9]!r}", InvalidKeyError, words, stage(path=[path]))
        for path, words in BAD_KEYS
    ),
    *(
        (
            f"staged removal of {path[:9]!r}",
            InvalidKeyError,
            words,
            lambda lab, path=path: lab.main.stage(
                pa.table({"path": ["fine", path], "deleted": [True, True]})
            ),
        )
        for path, words in BAD_ANYWHERE
    ),
    *(
        (f"prefix {number}", InvalidKeyError, "not UTF-8", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.objects("main", SURROGATE),
                lambda lab: list(lab.repo.folder("main", SURROGATE)),
                lambda lab: lab.repo.diff("main", "dev", SURROGATE),
                lambda lab: lab.repo.diff_uncommitted("dirty", SURROGATE),
                lambda lab: lab.main.delete_prefix(SURROGATE),
                load("source", prefix=SURROGATE),
            )
        )
    ),
    ("import NUL", InvalidKeyError, "no NUL", load("source", prefix="a\0b")),
    ("import above", InvalidKeyError, "leave the store's root", load("source", prefix="../x")),
    ("import root", InvalidKeyError, "leave the store's root", load("source", prefix="/x")),
    ("import long", InvalidImportError, "at most 1024", load("source", prefix="x" * 1022)),
]

OBJECTS: list[Case] = [
    ("no file", InvalidInputError, "nope is not a file", put_file("k", "nope")),
    ("a directory", InvalidInputError, "source is not a file", put_file("k", "source")),
    *(
        (f"{words} {number}", InvalidRowsError, words, verb)
        for words, options in (
            ("at most 65536", {"metadata": {"k": "x" * 70_000}}),
            ("not UTF-8", {"metadata": {"k": SURROGATE}}),
            ("not UTF-8", {"metadata": {SURROGATE: "v"}}),
            ("not UTF-8", {"content_type": SURROGATE}),
        )
        for number, verb in enumerate((put("k", **options), put_file("k", **options)))
    ),
]

TABLES: list[Case] = [
    (
        "twice",
        InvalidRowsError,
        "b'k' occurs twice",
        lambda lab: lab.main.stage(pa.concat_tables([table(), table()])),
    ),
    (
        "deleted twice",
        InvalidRowsError,
        "b'k' occurs twice",
        lambda lab: lab.main.stage(pa.table({"path": ["k", "k"], "deleted": [True, True]})),
    ),
    ("no path", InvalidRowsError, "'path'.*are required", stage(path=None)),
    ("no size", InvalidRowsError, "'size'.*are required", stage(size=None)),
    ("no address", InvalidRowsError, "'address'.*are required", stage(address=None)),
    ("unknown", InvalidRowsError, "'colour'.*allowed", stage(colour=["red"])),
    (
        "path twice",
        InvalidRowsError,
        "path",
        lambda lab: lab.main.stage(table().append_column("path", texts("other"))),
    ),
    ("null path", InvalidRowsError, "no path", stage(path=texts(None))),
    ("null size", InvalidRowsError, "'k' has no size", stage(size=pa.array([None], pa.int64()))),
    ("null address", InvalidRowsError, "'k' has no address", stage(address=texts(None))),
    ("negative size", InvalidRowsError, "'k' is -1: use a number of bytes", stage(size=[-1])),
    ("huge size", InvalidRowsError, "size", stage(size=pa.array([1 << 63], pa.uint64()))),
    ("float size", InvalidRowsError, "column size is double", stage(size=[1.5])),
    ("text size", InvalidRowsError, "column size is string", stage(size=["1"])),
    ("number path", InvalidRowsError, "column path is int64", stage(path=[1])),
    ("bytes path", InvalidRowsError, "column path is binary", stage(path=[b"k"])),
    ("number address", InvalidRowsError, "column address is int64", stage(address=[1])),
    ("number checksum", InvalidRowsError, "column checksum is int64", stage(checksum=[1])),
    ("number type", InvalidRowsError, "column content_type is", stage(content_type=[1])),
    ("text deleted", InvalidRowsError, "column deleted is string", stage(deleted=["false"])),
    ("number deleted", InvalidRowsError, "column deleted is int64", stage(deleted=[1])),
    ("number mtime", InvalidRowsError, "column mtime is int64", stage(mtime=[1])),
    ("text metadata", InvalidRowsError, "column metadata is string", stage(metadata=["x"])),
    ("struct metadata", InvalidRowsError, "column metadata is", stage(metadata=[{"k": "v"}])),
    (
        "number metadata",
        InvalidRowsError,
        "column metadata is map",
        stage(metadata=pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))),
    ),
    ("null metadata", InvalidRowsError, "no value for 'k'", stage(metadata=pairs("k", None))),
    ("big metadata", InvalidRowsError, "at most 65536", stage(metadata=pairs("k", "x" * 70_000))),
    *(
        (f"address {address!r}", error, words, stage(address=[address]))
        for address, error, words in (
            ("", InvalidKeyError, "empty"),
            ("../outside", InvalidKeyError, r"'\.\.'"),
            ("data/../../outside", InvalidKeyError, r"'\.\.'"),
            ("/absolute", InvalidKeyError, "'/'"),
            ("hdfs://name/x", InvalidUriError, "hdfs://.*use"),
            ("file:/x", InvalidRowsError, "'file:/x': write file:///path"),
            ("dbfs:/a/../x", InvalidRowsError, "'dbfs:/a/../x': write"),
            ("file://host/x", InvalidUriError, "contains the host"),
        )
    ),
    ("object", MissingFileError, "data/x does not exist", stage(checksum=None)),
    ("a list", InvalidInputError, "not <class 'list'>", lambda lab: lab.main.stage([])),  # type: ignore[arg-type]
]

COMMITS: list[Case] = [
    (
        "nothing",
        NoChangesError,
        "nothing to commit: the staged changes do not alter 'main'",
        lambda lab: lab.main.commit("m"),
    ),
    *(
        (f"message {text[:9]!r}", InvalidInputError, words, commit(text))
        for text, words in (
            ("", "needs a message: describe"),
            (" \n\t", "needs a message: describe"),
            ("a\0b", "UTF-8 without NUL"),
            (SURROGATE, "UTF-8 without NUL"),
            ("x" * 70_000, "at most 65536 bytes"),
        )
    ),
    *(
        (f"{text!r} {number}", InvalidInputError, "UTF-8 without NUL", verb)
        for text in ("a\0b", SURROGATE)
        for number, verb in enumerate(
            (
                commit(committer=text),
                commit(metadata={"k": text}),
                commit(metadata={text: "v"}),
                merge("dev", "main", "source-wins", message=text),
                merge("dev", "main", "source-wins", committer=text),
                merge("dev", "main", "source-wins", metadata={"k": text}),
                lambda lab, text=text: lab.main.import_objects(
                    str(lab.folder / "source"), "in", message=text
                ),
            )
        )
    ),
]

MERGES: list[Case] = [
    (
        "rows of a conflict by a strategy for objects",
        InvalidInputError,
        "is not a strategy for rows",
        lambda lab: lab.repo.merge_conflicts("dev", "main", "t", "newest-wins"),
    ),
    (
        "itself",
        NoChangesError,
        "'dev' cannot be merged into itself: choose two",
        merge("dev", "dev"),
    ),
    (
        "own commit",
        NoChangesError,
        "'dev' already has all changes in commit",
        merge("dev~0", "dev"),
    ),
    (
        "an ancestor",
        NoChangesError,
        "'main' already has all changes in commit",
        merge("main~3", "main"),
    ),
    (
        "strategy",
        InvalidInputError,
        "'ours' is no.*choose source-wins",
        merge("dev", "main", "ours"),
    ),
    (
        "conflict",
        MergeConflictError,
        r"the merge was not applied: 1 conflicting object \('d/1'\).*choose a strategy, such as",
        merge("dev", "main"),
    ),
]

IMPORTS: list[Case] = [
    ("dirty", DirtyBranchError, "'dirty' has uncommitted.*commit or drop", load("source", "dirty")),
    ("own namespace", InvalidInputError, "overlaps the storage namespace", load("lab/namespace")),
    ("inside own", InvalidInputError, "overlaps the storage namespace", load("lab/namespace/data")),
    ("around own", InvalidInputError, "overlaps the storage namespace", load("lab")),
    ("own by a link", InvalidInputError, "overlaps the storage namespace", load("link")),
    ("nothing", InvalidInputError, "empty contains no objects", load("empty")),
    ("below a file", InvalidInputError, "file is a file: choose a folder", load("source/file/x")),
    ("nowhere", InvalidInputError, "nope does not exist: correct", load("nope")),
    ("NUL", InvalidInputError, "without NUL", load("a\0b")),
    (
        "scheme",
        InvalidUriError,
        "hdfs://.*: use",
        lambda lab: lab.main.import_objects("hdfs://b/x"),
    ),
]

TABLE = {
    "name": NAMES,
    "absent": ABSENT,
    "present": PRESENT,
    "ref": REFS,
    "staged": STAGED,
    "namespace": NAMESPACES,
    "key": KEYS,
    "object": OBJECTS,
    "table": TABLES,
    "commit": COMMITS,
    "merge": MERGES,
    "import": IMPORTS,
    "replay": REPLAYS,
    "reset": RESETS,
    "move": MOVES,
    "read": READS,
    "lake": LAKE_VERBS,
    "transfer": TRANSFERS,
    "chosen": CHOSEN,
    "joining": JOININGS,
    "setting": SETTINGS,
    "history": HISTORIES,
    "file": FILES,
    "data": DATA,
}
ROWS = [
    pytest.param(*case[1:], id=f"{kind}: {case[0]}")
    for kind, cases in TABLE.items()
    for case in cases
]

EXIT_CODES = {
    InvalidInputError: 2,
    MergeConflictError: 3,
    NothingToDoError: 4,
    DirtyBranchError: 4,
    PurgeBlockedError: 4,
    RaceLostError: 5,
    NotFoundError: 13,
    AlreadyExistsError: 14,
    (ProtectedError, ReadOnlyError, ImmutableRefError): 11,
    MissingFileError: 10,
}

CANNOT_BE_WRONG = {
    *("Lake.close", "Lake.repositories"),
    # They are about Spark, and tested with it.
    *("Lake.remote_opener", "Lake.register"),
    *("Repository.branches", "Repository.branch_states", "Repository.tags"),
    # The namespace can be wrong, as it is in the tests of dumps.
    "Repository.dump_refs",
    # It takes nothing, and leaves alone what may not be deleted.
    "Repository.prune_branches",
    # They take nothing.
    *("Repository.purges", "Repository.writes"),
    # What they take is a DataFrame, and they are refused in the tests of Spark.
    *("Branch.edit_delta", "Branch.edit_iceberg", "Branch.write", "Branch.write_stream"),
    *("Lake.read_stream", "Lake.session", "Lake.sql", "Lake.write", "Lake.write_stream"),
    # It takes an error of a merge, which may have no such rows.
    "Repository.overlapping_rows",
}
"""Verbs that take nothing that could be wrong, or cannot be called here."""


@for_each(("error", "words", "verb"), ROWS)
def test_refused(
    small_lab: Lab, untouched: dict[str, Any], error: type[SparklakeError], words: str, verb: Verb
) -> None:
    with pytest.raises(error, match=words) as raised:
        verb(small_lab)
    assert type(raised.value) is error
    assert fingerprint(small_lab.lake, small_lab.folder) == untouched
    expected = [code for kind, code in EXIT_CODES.items() if issubclass(error, kind)]
    assert raised.value.exit_code == (expected or [12])[0]


@for_each(("error", "words", "verb"), ROWS)
def test_refused_by_postgres(
    unchanged_lab: Lab, error: type[SparklakeError], words: str, verb: Verb
) -> None:
    with pytest.raises(error, match=words) as raised:
        verb(unchanged_lab)
    assert type(raised.value) is error


@pytest.mark.parametrize("kind", ["small_lab", "postgres_lab"])
@pytest.mark.parametrize("name", ["a\0b", SURROGATE])
def test_names_that_postgres_cannot_hold(
    kind: str, name: str, request: pytest.FixtureRequest
) -> None:
    """They are looked for in vain, or refused: which of the two, the ref store decides."""
    lab: Lab = request.getfixturevalue(kind)
    before = fingerprint(lab.lake, lab.folder)
    for verb in (
        lambda: lab.repo.branch(name),
        lambda: lab.repo.delete_branch(name),
        lambda: lab.repo.delete_tag(name),
        lambda: lab.ghost(name).put("k", b""),
        lambda: lab.ghost(name).commit("m"),
        lambda: lab.ghost(name).undo(),
    ):
        with pytest.raises((RefNotFoundError, InvalidInputError)):
            verb()
    assert fingerprint(lab.lake, lab.folder) == before


def test_every_verb_of_the_api_has_bad_input(small_lab: Lab) -> None:
    with noted_refusals() as refusals:
        for cases in TABLE.values():
            for _, error, _, verb in cases:
                with pytest.raises(error):
                    verb(small_lab)
    assert never_refused(refusals) == CANNOT_BE_WRONG


def test_unknown_engine() -> None:
    with pytest.raises(InvalidInputError, match="'flink' is not an engine: choose one of auto"):
        sparklake.connect(engine="flink")
