"""Bad input for the verbs that move, copy, restore and rebase, for settings, and for histories."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from sparklake.errors import (
    AlreadyExistsError,
    AmbiguousRefError,
    DirtyBranchError,
    InvalidInputError,
    InvalidKeyError,
    InvalidRefError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    ProtectedError,
    RefNotFoundError,
    RepositoryNotFoundError,
)
from tests.scenarios.lab import LONG, SURROGATE, Case, Lab, Verb, ambiguous

DAY = timedelta(days=1)


def transfer(verb: str, *names: str, branch: str = "main", **words: Any) -> Verb:
    return lambda lab: getattr(lab.ghost(branch), verb)(*names, **words)


def both(title: str, error: Any, words: str, *names: str, **terms: Any) -> list[Case]:
    """Return the same case of a move and of a copy."""
    return [
        (f"{verb} {title}", error, words, transfer(verb, *names, **terms))
        for verb in ("move", "copy")
    ]


TRANSFERS: list[Case] = [
    *both("of nothing", ObjectNotFoundError, "'main' has no object at 'nope'", "nope", "x"),
    *both("of an empty folder", ObjectNotFoundError, "no object at 'nope/'", "nope/", "x"),
    *both("of a folder as an object", ObjectNotFoundError, "no object at 'd'", "d", "x"),
    *both("to what is there", AlreadyExistsError, "'d/2'", "d/1", "d/2"),
    *both("recursively", AlreadyExistsError, "'d/2'", "d/1", "d/2", recursive=True),
    *both("on no branch", RefNotFoundError, "no branch 'nope'", "d/1", "x", branch="nope"),
    *both("on a tag", RefNotFoundError, "no branch 'v1'", "d/1", "x", branch="v1"),
    *both("too long", InvalidKeyError, "with 1025 bytes", "d/", "x" * 1023),
    *(
        (f"{verb} {path[:9]!r} as {place}", InvalidKeyError, words, transfer(verb, *names))
        for verb in ("move", "copy")
        for path, words in ((LONG, "1025 bytes; at most 1024"), (SURROGATE, "not UTF-8"))
        for place, names in (("source", (path, "x")), ("dest", ("d/1", path)))
    ),
    *(
        (f"{verb} to {path!r}", InvalidKeyError, words, transfer(verb, "d/1", path))
        for verb in ("move", "copy")
        for path, words in (
            ("../x", "leave the store's root"),
            ("/abs", "leave the store's root"),
            ("a\0b", "no NUL"),
        )
    ),
    *both("of an odd key", ObjectNotFoundError, "no object at '../x'", "../x", "x"),
    ("move to itself", InvalidInputError, "one contains the other", transfer("move", "d/1", "d/1")),
    ("move into itself", InvalidInputError, "contains the other", transfer("move", "d/", "d/e/")),
    ("move out of itself", InvalidInputError, "contains the other", transfer("move", "d/", "")),
    ("copy of nowhere", RefNotFoundError, "'nope'", transfer("copy", "d/1", "x", "nope")),
    ("copy, malformed", InvalidRefError, "not a ref", transfer("copy", "d/1", "x", "main~x")),
    (
        "copy of what another lacks",
        ObjectNotFoundError,
        "'dev' has no object at 'nope'",
        transfer("copy", "nope", "x", "dev"),
    ),
]


def restore(ref: str, *paths: str, branch: str = "main") -> Verb:
    return lambda lab: lab.ghost(branch).restore(ref, paths)


def commit_of(*paths: str, branch: str = "dirty") -> Verb:
    return lambda lab: lab.ghost(branch).commit("m", paths=paths)


CHOSEN: list[Case] = [
    ("restore from nowhere", RefNotFoundError, "'nope'", restore("nope", "d/1")),
    (
        "restore on no branch",
        RefNotFoundError,
        "no branch 'nope'",
        restore("dev", "d/1", branch="nope"),
    ),
    ("restore on a tag", RefNotFoundError, "no branch 'v1'", restore("dev", "d/1", branch="v1")),
    ("restore, malformed", InvalidRefError, "not a ref", restore("main~x", "d/1")),
    ("restore, staged", InvalidRefError, "means staged changes", restore("dev$", "d/1")),
    ("restore of nothing", InvalidInputError, "the list of paths is empty", restore("dev")),
    (
        "restore of a text",
        InvalidInputError,
        r"must be a list, such as \['d/1'\]",
        lambda lab: lab.main.restore("dev", "d/1"),
    ),
    (
        "restore of what is not",
        ObjectNotFoundError,
        "neither 'dev' nor 'main'",
        restore("dev", "nope"),
    ),
    ("restore of the same", NoChangesError, "'d/2' on 'main' is the same", restore("dev", "d/2")),
    *(
        (f"{kind} of {path[:9]!r}", InvalidKeyError, words, verb(path))
        for path, words in (("", "empty"), (LONG, "1025 bytes"), (SURROGATE, "not UTF-8"))
        for kind, verb in (
            ("restore", lambda path: restore("dev", "d/1", path)),
            ("commit", lambda path: commit_of("staged", path)),
            ("merge", lambda path: lambda lab: lab.repo.merge("new", "main", paths=["n", path])),
        )
    ),
    ("commit of no path", InvalidInputError, "the list of paths is empty", commit_of()),
    (
        "commit of others",
        NoChangesError,
        "the staged changes of the selected paths",
        commit_of("d/", branch="main"),
    ),
    (
        "merge of no path",
        InvalidInputError,
        "the list of paths is empty",
        lambda lab: lab.repo.merge("new", "main", paths=[]),
    ),
    (
        "plan of no path",
        InvalidInputError,
        "the list of paths is empty",
        lambda lab: lab.ghost("dirty").plan([]),
    ),
]


def rebase(onto: str, branch: str = "dev", **words: Any) -> Verb:
    return lambda lab: lab.ghost(branch).rebase(onto, **words)


def preview(source: str, dest: str, **words: Any) -> Verb:
    return lambda lab: lab.repo.preview_merge(source, dest, **words)


def transaction(branch: str = "dev", message: str = "m", **words: Any) -> Verb:
    """Return a transaction whose body is not to be reached."""

    def verb(lab: Lab) -> None:
        with lab.ghost(branch).transaction(message, **words):
            raise AssertionError

    return verb


JOININGS: list[Case] = [
    ("rebase onto nowhere", RefNotFoundError, "'nope'", rebase("nope")),
    ("rebase of no branch", RefNotFoundError, "no branch 'nope'", rebase("main", "nope")),
    ("rebase of a tag", RefNotFoundError, "no branch 'v1'", rebase("main", "v1")),
    ("rebase, malformed", InvalidRefError, "not a ref", rebase("main~x")),
    ("rebase, staged", InvalidRefError, "means staged changes", rebase("dev$")),
    ("rebase, dirty", DirtyBranchError, "'dirty' has uncommitted", rebase("main", "dirty")),
    ("rebase onto its own", NoChangesError, "'dev'", rebase("dev~1")),
    (
        "rebase, strategy",
        InvalidInputError,
        "'ours' is no.*choose",
        rebase("main", strategy="ours"),
    ),
    (
        "rebase, rule",
        InvalidInputError,
        "'ours' is no.*choose",
        rebase("main", rules={"**": "ours"}),
    ),
    ("rebase, conflict", MergeConflictError, "cannot rebase.*'d/1'", rebase("main")),
    ("preview from nowhere", RefNotFoundError, "'nope'", preview("nope", "main")),
    ("preview into nowhere", RefNotFoundError, "no branch 'nope'", preview("dev", "nope")),
    ("preview into a tag", RefNotFoundError, "no branch 'v1'", preview("dev", "v1")),
    ("preview, malformed", InvalidRefError, "not a ref", preview("main~x", "dev")),
    ("preview of itself", NoChangesError, "itself", preview("dev", "dev")),
    (
        "preview of an ancestor",
        NoChangesError,
        "already has all changes in commit",
        preview("main~3", "main"),
    ),
    (
        "preview, strategy",
        InvalidInputError,
        "'ours' is no",
        preview("dev", "main", strategy="ours"),
    ),
    (
        "preview of no path",
        InvalidInputError,
        "the list of paths is empty",
        preview("dev", "main", paths=[]),
    ),
    ("transaction on no branch", RefNotFoundError, "no branch 'nope'", transaction("nope")),
    ("transaction on a tag", RefNotFoundError, "no branch 'v1'", transaction("v1")),
    ("transaction, dirty", DirtyBranchError, "start a transaction on it", transaction("dirty")),
    ("transaction, message", InvalidInputError, "needs a message", transaction(message=" ")),
    ("transaction, committer", InvalidInputError, "UTF-8", transaction(committer="a\0b")),
    ("transaction, metadata", InvalidInputError, "UTF-8", transaction(metadata={"k": SURROGATE})),
    ("transaction, strategy", InvalidInputError, "'ours' is no", transaction(strategy="ours")),
    (
        "transaction, expiry",
        InvalidInputError,
        "cannot expire in",
        transaction(expires=timedelta()),
    ),
]


def lifetime(span: timedelta | None, branch: str = "dev") -> Verb:
    return lambda lab: lab.ghost(branch).set_expiry(span)


def set_up(verb: str, *texts: Any, **words: Any) -> Verb:
    return lambda lab: getattr(lab.repo.settings, verb)(*texts, **words)


def on_gone(verb: str, *texts: Any) -> Verb:
    return lambda lab: getattr(lab.gone.settings, verb)(*texts)


SETTINGS: list[Case] = [
    *(
        (f"expiry {span}", InvalidInputError, "cannot expire in", lifetime(span))
        for span in (timedelta(), -DAY, timedelta(days=36_501))
    ),
    ("expiry of the default", ProtectedError, "cannot expire", lifetime(DAY, "main")),
    ("expiry of no branch", RefNotFoundError, "no branch 'nope'", lifetime(DAY, "nope")),
    ("no expiry of no branch", RefNotFoundError, "no branch 'nope'", lifetime(None, "nope")),
    ("protect nothing", InvalidInputError, "pass at least one pattern", set_up("protect")),
    *(
        (f"protect {pattern[:9]!r}", InvalidInputError, words, set_up("protect", "main", pattern))
        for pattern, words in (
            ("", "matches no branch"),
            ("a/*", "matches no branch"),
            ("a b", "matches no branch"),
            ("a\0", "matches no branch"),
            (SURROGATE, "matches no branch"),
            ("x" * 300, "at most 255"),
        )
    ),
    ("block a merge", InvalidInputError, "'merge' cannot", set_up("protect", "x", block=["merge"])),
    ("block nothing", InvalidInputError, "must block", set_up("protect", "x", block=[])),
    ("keep -1 days", InvalidInputError, "0 to 36,500 days", set_up("set_retention", -1)),
    ("keep a/b", InvalidInputError, "matches no branch", set_up("set_retention", 1, {"a/b": 1})),
    ("unprotect nothing", InvalidInputError, "pass at least one pattern", set_up("unprotect")),
    (
        "unprotect no rule",
        NotFoundError,
        "rule with the pattern 'x' does not exist",
        set_up("unprotect", "x"),
    ),
    *(
        (f"label {number}", InvalidInputError, words, set_up("set_metadata", labels))
        for number, (labels, words) in enumerate(
            (
                ({"": "v"}, "needs a name"),
                ({"k": "a\0b"}, "UTF-8 without NUL"),
                ({SURROGATE: "v"}, "UTF-8 without NUL"),
                ({"k": "x" * 70_000}, "at most"),
            )
        )
    ),
    ("remove no label", InvalidInputError, "pass at least one label", set_up("remove_metadata")),
    (
        "remove what is none",
        NotFoundError,
        "the label 'x' does not exist",
        set_up("remove_metadata", "x"),
    ),
    (
        "set one and remove none",
        NotFoundError,
        "the label 'x' does not exist",
        set_up("edit_metadata", {"k": "v"}, ["x"], read_only=True),
    ),
    *(
        (
            f"{verb} of a repository that is gone",
            RepositoryNotFoundError,
            "no longer exists",
            on_gone(verb, *texts),
        )
        for verb, texts in (
            ("get", ()),
            ("set_read_only", ()),
            ("protect", ("main",)),
            ("set_retention", (1,)),
            ("clear_retention", ()),
            ("set_metadata", ({"k": "v"},)),
        )
    ),
]


def graph(ref: str = "main", **words: Any) -> Verb:
    return lambda lab: lab.repo.graph(ref, **words)


def log(**words: Any) -> Verb:
    return lambda lab: list(lab.repo.log("main", **words))


def diff(**words: Any) -> Verb:
    return lambda lab: list(lab.repo.diff("main", "dev", **words))


HISTORIES: list[Case] = [
    ("texts of nowhere", RefNotFoundError, "'nope'", lambda lab: lab.repo.diff_texts("nope")),
    ("texts of a tag", RefNotFoundError, "it is a tag", lambda lab: lab.repo.diff_texts("v1")),
    ("blame of nowhere", RefNotFoundError, "'nope'", lambda lab: lab.repo.blame("nope")),
    ("blame, malformed", InvalidRefError, "not a ref", lambda lab: lab.repo.blame("main~x")),
    ("blame, staged", InvalidRefError, "means staged changes", lambda lab: lab.repo.blame("dev$")),
    ("blame of several", AmbiguousRefError, "add more", lambda lab: lab.repo.blame(ambiguous(lab))),
    ("blame, prefix", InvalidKeyError, "UTF-8", lambda lab: lab.repo.blame("main", SURROGATE)),
    ("graph of nowhere", RefNotFoundError, "'nope'", graph("nope")),
    ("graph, malformed", InvalidRefError, "not a ref", graph("")),
    ("graph of 0", InvalidInputError, "a log of 0 commits", graph(limit=0)),
    (
        "log of a path and a prefix",
        InvalidInputError,
        "choose one of the path",
        log(path="d/1", prefix="d/"),
    ),
    ("log of a bad path", InvalidKeyError, "empty", log(path="")),
    ("log of a bad prefix", InvalidKeyError, "UTF-8", log(prefix=SURROGATE)),
    ("both diffs", InvalidInputError, "three", diff(three_way=True, three_dot=True)),
    *(
        (
            f"folders {depth} deep",
            InvalidInputError,
            f"a depth of {depth}",
            lambda lab, depth=depth: lab.repo.diff("main", "dev").by_folder(depth),
        )
        for depth in (0, -1, 101)
    ),
    ("garbage of no run", NotFoundError, "'x'", lambda lab: lab.repo.garbage("x")),
    ("garbage of no id", InvalidInputError, "is not the id", lambda lab: lab.repo.garbage("../x")),
    (
        "no time of grace",
        InvalidInputError,
        "grace period",
        lambda lab: lab.repo.collect_garbage(grace=timedelta(seconds=-1)),
    ),
    (
        "a sweep that is dry",
        InvalidInputError,
        "one of the two",
        lambda lab: lab.repo.collect_garbage(dry_run=True, sweep="x"),
    ),
    ("a sweep of no run", NotFoundError, "'x'", lambda lab: lab.repo.collect_garbage(sweep="x")),
    ("a check of all", InvalidInputError, "'all'", lambda lab: lab.repo.check("all")),
    ("a repair of all", InvalidInputError, "'all'", lambda lab: lab.repo.repair("all")),
    ("run of hooks", NotFoundError, "no hook run 'x'", lambda lab: lab.repo.hook_run("x")),
    *(
        (f"hook runs {limit}", InvalidInputError, f"{limit}.*1 or more", runs)
        for limit in (0, -1)
        for runs in [lambda lab, limit=limit: lab.repo.hook_runs(limit)]
    ),
]
