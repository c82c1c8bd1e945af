"""Bad input for what puts, copies and removes many objects, and for objects that are opened."""

from __future__ import annotations

from pathlib import Path

from sparklake.errors import (
    AlreadyExistsError,
    InvalidInputError,
    InvalidKeyError,
    InvalidRowsError,
    ObjectNotFoundError,
    RefNotFoundError,
)
from tests.scenarios.lab import LONG, SURROGATE, Case

_KEYS = ((LONG, "at most 1024"), ("../x", "leave the store's root"), (SURROGATE, "not UTF-8"))

FILES: list[Case] = [
    *(
        (f"no text {number}", InvalidKeyError, "must be a string, not", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.main.put(Path("k"), b""),
                lambda lab: lab.main.put_many({b"k": b""}),
                lambda lab: lab.main.delete(None),
                lambda lab: lab.main.delete_prefix(None),
                lambda lab: lab.repo.stat("main", Path("d/1")),
            )
        )
    ),
    (
        "a body of text",
        InvalidInputError,
        "'k' is <class 'str'>: use bytes",
        lambda lab: lab.main.put("k", "text"),
    ),
    (
        "removal of a text",
        InvalidInputError,
        r"must be a list, such as \['d/1'\]",
        lambda lab: lab.main.remove_many("d/1"),
    ),
    *(
        (f"{path[:9]!r} {number}", InvalidKeyError, words, verb)
        for path, words in _KEYS
        for number, verb in enumerate(
            (
                lambda lab, path=path: lab.main.put_many({"fine": b"", path: b""}),
                lambda lab, path=path: lab.main.put_folder(path, lab.folder / "source"),
                lambda lab, path=path: lab.main.open(path, "wb"),
                lambda lab, path=path: lab.main.copy_many([("d/1", "x"), ("d/1", path)]),
            )
        )
    ),
    *(
        (f"read {path[:9]!r} {number}", InvalidKeyError, words, verb)
        for path, words in _KEYS
        if not path.startswith("..")
        for number, verb in enumerate(
            (
                lambda lab, path=path: lab.main.open(path),
                lambda lab, path=path: lab.repo.open("main", path),
                lambda lab, path=path: lab.main.copy_many([(path, "x")]),
                lambda lab, path=path: lab.main.remove_many(["d/1", path]),
            )
        )
    ),
    *(
        (f"no branch {number}", RefNotFoundError, "'nope'", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.ghost("nope").put_many({"k": b""}),
                lambda lab: lab.ghost("nope").put_folder("", lab.folder / "source"),
                lambda lab: lab.ghost("nope").open("k", "w"),
                lambda lab: lab.ghost("nope").open("k"),
                lambda lab: lab.repo.open("nope", "k"),
                lambda lab: lab.ghost("nope").copy_many([("d/1", "x")]),
                lambda lab: lab.main.copy_many([("d/1", "x")], "nope"),
                lambda lab: lab.ghost("nope").remove_many(["d/1"]),
            )
        )
    ),
    *(
        (f"{words} {number}", InvalidRowsError, words, verb)
        for words, options in (
            ("at most 65536", {"metadata": {"k": "x" * 70_000}}),
            ("not UTF-8", {"metadata": {"k": SURROGATE}}),
            ("not UTF-8", {"content_type": SURROGATE}),
        )
        for number, verb in enumerate(
            (
                lambda lab, options=options: lab.main.put_many({"k": b""}, **options),
                lambda lab, options=options: lab.main.put_folder(
                    "", lab.folder / "source", **options
                ),
                lambda lab, options=options: lab.main.open("k", "wb", **options),
            )
        )
    ),
    (
        "put twice",
        InvalidRowsError,
        "'k' is put twice",
        lambda lab: lab.main.put_many([("k", b""), ("k", b"")]),
    ),
    (
        "copied twice",
        InvalidRowsError,
        "'k' is put twice",
        lambda lab: lab.main.copy_many([("d/1", "k"), ("d/2", "k")]),
    ),
    ("a text", InvalidInputError, "use bytes", lambda lab: lab.main.put_many({"k": "text"})),
    ("nothing", ObjectNotFoundError, "'nope'", lambda lab: lab.repo.open("main", "nope")),
    ("a folder", ObjectNotFoundError, "'d'", lambda lab: lab.main.open("d")),
    (
        "a copy of nothing",
        ObjectNotFoundError,
        "'nope'",
        lambda lab: lab.main.copy_many([("d/1", "x"), ("nope", "y")]),
    ),
    (
        "there",
        AlreadyExistsError,
        "already has an object 'd/1'",
        lambda lab: lab.main.open("d/1", "xb"),
    ),
    ("a mode", InvalidInputError, "mode 'ab'", lambda lab: lab.main.open("k", "ab")),
    ("to write", InvalidInputError, "on a branch", lambda lab: lab.repo.open("main", "d/1", "w")),
    (
        "the namespace",
        InvalidInputError,
        "overlaps the storage namespace",
        lambda lab: lab.main.put_folder("", lab.folder / "link"),
    ),
    (
        "an empty folder",
        InvalidInputError,
        "contains no files",
        lambda lab: lab.main.put_folder("", lab.folder / "empty"),
    ),
]
