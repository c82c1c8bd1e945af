"""Bad input for what reads tables, exports, purges and keeps a register of writes."""

from __future__ import annotations

from datetime import datetime, timezone

from sparklake.errors import (
    InvalidInputError,
    InvalidUriError,
    NoChangesError,
    NotFoundError,
    ObjectNotFoundError,
    PurgeBlockedError,
    RefNotFoundError,
)
from tests.scenarios.lab import Case

LONG_AGO = datetime(1999, 12, 31, tzinfo=timezone.utc)

DATA: list[Case] = [
    *(
        (f"no ref {number}", RefNotFoundError, "'nope'", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.view("nope", "d"),
                lambda lab: lab.repo.iceberg_metadata("nope", "d"),
                lambda lab: lab.repo.changes("nope"),
                lambda lab: lab.repo.diff_table("main", "nope", "d", ["id"]),
                lambda lab: lab.repo.export("nope", str(lab.folder / "out")),
                lambda lab: lab.repo.manifest("nope", str(lab.folder / "out")),
                lambda lab: lab.repo.register("nope", "t", str(lab.folder / "out"), "c.d.t"),
                lambda lab: lab.repo.at_time("nope", LONG_AGO),
            )
        )
    ),
    *(
        (f"unknown {number}", NotFoundError, "'nope'", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.abandon_write("nope"),
                lambda lab: lab.repo.get_purge("nope"),
                lambda lab: lab.repo.resume_purge("nope"),
                lambda lab: lab.repo.receipt("nope"),
            )
        )
    ),
    *(
        (f"no store {number}", InvalidUriError, "ftp:// is not supported", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.export("main", "ftp://host/out"),
                lambda lab: lab.repo.manifest("main", "ftp://host/out"),
            )
        )
    ),
    *(
        (f"the namespace {number}", InvalidInputError, "overlaps the storage namespace", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.export("main", str(lab.folder / "link" / "out")),
                lambda lab: lab.repo.manifest("main", str(lab.folder / "link" / "out")),
            )
        )
    ),
    ("a format", InvalidInputError, "not orc", lambda lab: lab.repo.view("main", "d", "orc")),
    ("no table", ObjectNotFoundError, "'nope'", lambda lab: lab.repo.view("main", "nope")),
    (
        "a manifest's format",
        InvalidInputError,
        "'xml'",
        lambda lab: lab.repo.manifest("main", str(lab.folder / "out"), format="xml"),
    ),
    ("before it began", RefNotFoundError, "1999", lambda lab: lab.repo.at_time("main", LONG_AGO)),
    (
        "no time zone",
        InvalidInputError,
        "time zone",
        lambda lab: lab.repo.at_time("main", LONG_AGO.replace(tzinfo=None)),
    ),
    *(
        (f"columns that are no list {number}", InvalidInputError, "must be lists of names", verb)
        for number, verb in enumerate(
            (
                lambda lab: lab.repo.diff_table("main", "dev", "d", "id"),
                lambda lab: lab.repo.diff_table("main", "dev", "d", ["id"], columns="id"),
            )
        )
    ),
    (
        "no datetime",
        InvalidInputError,
        "not '2024-05-31'",
        lambda lab: lab.repo.at_time("main", "2024-05-31"),  # type: ignore[arg-type]
    ),
    ("no path", InvalidInputError, "path", lambda lab: lab.repo.purge([])),
    (
        "a glob that is no list",
        InvalidInputError,
        r"must be a list, such as \['d/\*\*'\]",
        lambda lab: lab.repo.purge("d/**", commit=True),
    ),
    ("on a branch", PurgeBlockedError, "branch", lambda lab: lab.repo.purge(["d/1"])),
    ("nothing", NoChangesError, "has a matching path", lambda lab: lab.repo.purge(["nope"])),
]
