"""Bad input for the verbs that replay, reset and move, that read, and that make repositories."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sparklake.errors import (
    AlreadyExistsError,
    DirtyBranchError,
    InvalidInputError,
    InvalidKeyError,
    InvalidNameError,
    InvalidRefError,
    InvalidUriError,
    MergeConflictError,
    MissingFileError,
    NoChangesError,
    NothingToDoError,
    ObjectNotFoundError,
    RefNotFoundError,
    RepositoryNotFoundError,
    UnexpectedHeadError,
)
from tests.scenarios.lab import SURROGATE, Case, Verb

EARLY = datetime(2024, 1, 1, tzinfo=timezone.utc)
LATE = datetime(2024, 1, 2, tzinfo=timezone.utc)


def replay(verb: str, *refs: str, branch: str = "main", **terms: Any) -> Verb:
    return lambda lab: getattr(lab.ghost(branch), verb)(*refs, **terms)


def both(title: str, error: Any, words: str, *refs: str, **terms: Any) -> list[Case]:
    """Return the same case of revert and of cherry-pick."""
    return [
        (f"{verb} {title}", error, words, replay(verb, *refs, **terms))
        for verb in ("revert", "cherry_pick")
    ]


REPLAYS: list[Case] = [
    *both("nothing", InvalidInputError, "nothing to (revert|cherry-pick): pass a commit"),
    *both("nowhere", RefNotFoundError, "'nope'", "nope"),
    *both("one of two nowhere", RefNotFoundError, "'nope'", "dev", "nope"),
    *both("on no branch", RefNotFoundError, "no branch 'nope'", "dev", branch="nope"),
    *both("on a tag", RefNotFoundError, "no branch 'v1'", "dev", branch="v1"),
    *both("malformed", InvalidRefError, "not a ref", "main~x"),
    *both("staged changes", InvalidRefError, r"'dev\$' means staged changes", "dev$"),
    *both("not UTF-8", InvalidRefError, "not a ref", SURROGATE),
    *both("parent 0", InvalidInputError, "has no parent 0", "dev", parent_number=0),
    *both("parent -1", InvalidInputError, "has no parent -1", "dev", parent_number=-1),
    *both("parent 2", InvalidInputError, "has no parent 2: it has 1", "dev", parent_number=2),
    *both("a merge", InvalidInputError, "is a merge of 2 parents: choose", "merged"),
    *both("a strategy", InvalidInputError, "'ours' is no.*choose", "dev", strategy="ours"),
    *both("a message", InvalidInputError, "UTF-8 without NUL", "dev", message="a\0b"),
    *both("a blank message", InvalidInputError, "needs a message: describe", "dev", message=" "),
    *both("a committer", InvalidInputError, "UTF-8 without NUL", "dev", committer=SURROGATE),
    *both("metadata", InvalidInputError, "UTF-8 without NUL", "dev", metadata={"a\0": "v"}),
    *both("when dirty", DirtyBranchError, "'dirty' has uncommitted", "dev", branch="dirty"),
    *both("no change", NoChangesError, "would change nothing", "main"),
    ("a conflict in revert", MergeConflictError, "cannot revert.*'d/1'", replay("revert", "dev")),
    (
        "a conflict in cherry-pick",
        MergeConflictError,
        "cannot cherry-pick.*'d/1'.*choose a strategy",
        replay("cherry_pick", "dev"),
    ),
    (
        "a conflict in the second of two",
        MergeConflictError,
        "cannot cherry-pick",
        replay("cherry_pick", "new", "dev"),
    ),
]


def reset_object(path: str) -> Verb:
    return lambda lab: lab.main.reset(path=path)


RESETS: list[Case] = [
    ("count", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").count_staged()),
    ("both", InvalidInputError, "choose one of", lambda lab: lab.main.reset(prefix="a", path="a")),
    *(
        (
            f"object {path!r}",
            InvalidKeyError,
            words,
            lambda lab, path=path: lab.main.reset(path=path),
        )
        for path, words in (("", "empty"), (SURROGATE, "not UTF-8"))
    ),
    ("prefix", InvalidKeyError, "not UTF-8", lambda lab: lab.main.reset(prefix=SURROGATE)),
    ("no branch, object", RefNotFoundError, "nope", lambda lab: lab.ghost("nope").reset(path="a")),
    ("no branch, prefix", RefNotFoundError, "nope", lambda lab: lab.ghost("nope").reset(prefix="")),
    ("removal of nothing", ObjectNotFoundError, "'nope'", lambda lab: lab.main.remove("nope")),
    (
        "removal of an empty folder",
        ObjectNotFoundError,
        "no objects below 'nope/'",
        lambda lab: lab.main.remove("nope/", recursive=True),
    ),
]


def hard_reset(ref: str, branch: str = "main", **words: Any) -> Verb:
    return lambda lab: lab.ghost(branch).hard_reset(ref, **words)


def undo(branch: str) -> Verb:
    return lambda lab: lab.ghost(branch).undo()


MOVES: list[Case] = [
    ("hard reset to nowhere", RefNotFoundError, "'nope'", hard_reset("nope")),
    ("hard reset by force", RefNotFoundError, "'nope'", hard_reset("nope", "dirty", force=True)),
    ("hard reset past the first", RefNotFoundError, "goes back beyond", hard_reset("main~99")),
    ("hard reset of no branch", RefNotFoundError, "no branch 'nope'", hard_reset("main", "nope")),
    ("hard reset of a tag", RefNotFoundError, "no branch 'v1'", hard_reset("main", "v1")),
    ("hard reset, malformed", InvalidRefError, "not a ref", hard_reset("main~x")),
    ("hard reset, staged", InvalidRefError, "means staged changes", hard_reset("dev$")),
    ("hard reset, dirty", DirtyBranchError, "'dirty' has uncommitted", hard_reset("dev", "dirty")),
    ("another head", UnexpectedHeadError, "not at", hard_reset("dev", expected="dev")),
    (
        "another head by force",
        UnexpectedHeadError,
        "not at",
        hard_reset("dev", "dirty", expected="dev", force=True),
    ),
    ("expected nowhere", RefNotFoundError, "'nope'", hard_reset("dev", expected="nope")),
    ("expected, malformed", InvalidRefError, "not a ref", hard_reset("dev", expected="")),
    ("undo of no branch", RefNotFoundError, "no branch 'nope'", undo("nope")),
    ("undo of a tag", RefNotFoundError, "no branch 'v1'", undo("v1")),
    ("undo, dirty", DirtyBranchError, "'dirty' has uncommitted.*undo", undo("dirty")),
    ("undo of a birth", NothingToDoError, "has not moved since it was created", undo("still")),
    *(
        (f"{noun} {name!r}", RefNotFoundError, "no (branch|tag)", verb)
        for name in ("", "-x", "a b", "x" * 300)
        for noun, verb in (
            ("branch", lambda lab, name=name: lab.repo.branch(name)),
            ("delete branch", lambda lab, name=name: lab.repo.delete_branch(name)),
            ("delete tag", lambda lab, name=name: lab.repo.delete_tag(name)),
            ("commit on", lambda lab, name=name: lab.ghost(name).commit("m")),
            ("put on", lambda lab, name=name: lab.ghost(name).put("k", b"")),
            ("undo on", lambda lab, name=name: lab.ghost(name).undo()),
        )
    ),
]


def log(**options: Any) -> Verb:
    return lambda lab: list(lab.repo.log("main", **options))


def listing(ref: str) -> Verb:
    return lambda lab: list(lab.repo.folder(ref))


def plan(source: str, dest: str) -> Verb:
    return lambda lab: lab.repo.plan_merge(source, dest)


READS: list[Case] = [
    ("log of 0", InvalidInputError, "a log of 0 commits", log(limit=0)),
    ("log of -1", InvalidInputError, "a log of -1 commits", log(limit=-1)),
    ("since without a zone", InvalidInputError, "time zone", log(since=datetime(2024, 1, 1))),  # noqa: DTZ001
    ("until without a zone", InvalidInputError, "time zone", log(until=datetime(2024, 1, 1))),  # noqa: DTZ001
    ("since after until", InvalidInputError, "swap the two", log(since=LATE, until=EARLY)),
    ("after nowhere", RefNotFoundError, "'nope'", log(after="nope")),
    ("stop at nowhere", RefNotFoundError, "'nope'", log(stop_at="nope")),
    ("after another's", RefNotFoundError, "does not contain 'dev'", log(after="dev")),
    ("stop at another's", RefNotFoundError, "does not contain 'dev'", log(stop_at="dev")),
    ("after, malformed", InvalidRefError, "not a ref", log(after="")),
    ("stop at, staged", InvalidRefError, "means staged changes", log(stop_at="dev$")),
    ("folder of nothing", RefNotFoundError, "'nope'", listing("nope")),
    ("folder, malformed", InvalidRefError, "not a ref", listing("main~x")),
    ("at nothing", RefNotFoundError, "'nope'", lambda lab: lab.repo.at("nope")),
    ("lookup of null", InvalidInputError, "null", lambda lab: lab.repo.at("main").lookup([None])),  # type: ignore[list-item]
    ("tree of nothing", RefNotFoundError, "'nope'", lambda lab: lab.repo.tree("nope")),
    (
        "plan of a merge",
        RefNotFoundError,
        "'nope'",
        lambda lab: lab.repo.plan_merge("nope", "main"),
    ),
    ("plan of no merge", NoChangesError, "itself", lambda lab: lab.repo.plan_merge("dev", "dev")),
    ("plan of no commit", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").plan()),
    ("diff of no branch", RefNotFoundError, "'nope'", lambda lab: lab.ghost("nope").diff()),
    (
        "a table at the root",
        InvalidInputError,
        "a table needs a path",
        lambda lab: lab.repo.read("main", "/"),
    ),
    *(
        (f"operations {limit}", InvalidInputError, f"{limit}.*1 or more", operations)
        for limit in (0, -1)
        for operations in [lambda lab, limit=limit: lab.repo.operations(limit)]
    ),
]


def restore(name: str = "x-x", place: str = "empty", **words: Any) -> Verb:
    return lambda lab: lab.lake.restore_repository(name, str(lab.folder / place), **words)


def restored(uri: str) -> Verb:
    return lambda lab: lab.lake.restore_repository("x-x", uri)


LAKE_VERBS: list[Case] = [
    ("restore without a dump", MissingFileError, "no dump|refs_manifest", restore()),
    ("restore from nowhere", InvalidInputError, "does not exist", restore(place="nope")),
    ("restore of a living one", MissingFileError, "refs_manifest", restore(place="lab/namespace")),
    ("restore, name", InvalidNameError, "cannot be the name of a repository", restore("Upper")),
    ("restore, taken", AlreadyExistsError, "'lab' already", restore("lab")),
    ("restore, branch", InvalidNameError, "name of a branch", restore(default_branch="-x")),
    ("restore, ranges", InvalidInputError, "range_records must be 1 to", restore(range_records=0)),
    ("restore, scheme", InvalidUriError, "hdfs://.*: use", restored("hdfs://b/x")),
    ("restore, empty", InvalidUriError, "empty", restored("")),
    ("restore, NUL", InvalidUriError, "NUL", restored("a\0b")),
    (
        "a deleted one",
        RepositoryNotFoundError,
        "'gone'",
        lambda lab: lab.lake.delete_repository("gone"),
    ),
]
