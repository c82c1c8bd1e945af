"""Writes of tables: writes, abandon-write."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from sparklake.cli.session import Session, command
from sparklake.cli.text import date, shown
from sparklake.documents import Document, write_document
from sparklake.uri import repository_uri

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]


@command
def writes(session: Session, uri: RepositoryArgument) -> None:
    """Show the writes of tables that have not landed: open ones, and abandoned ones.

    A write whose driver died stays open until it is abandoned.
    """
    found = session.repository(repository_uri(uri)).writes()
    session.out.table(
        [write_document(each) for each in found],
        {
            "started": lambda each: date(each["started_at"]),
            "age": _age,
            "state": lambda each: each["state"],
            "branch": lambda each: each["branch"],
            "who": lambda each: shown(each["who"]),
            "write": lambda each: each["id"],
        },
    )


@command
def abandon_write(
    session: Session,
    uri: RepositoryArgument,
    write: Annotated[str, typer.Argument(metavar="WRITE", show_default=False)],
) -> None:
    """Let an open write stage nothing, ever, whether its driver is dead or not."""
    ended = session.repository(repository_uri(uri)).abandon_write(write)
    text = f"the write {ended.id} to {ended.branch} is abandoned; its files stage nothing"
    session.out.one(write_document(ended), text)


def _age(write: Document) -> str:
    minutes = max(int(time.time()) - int(write["started_at"]), 0) // 60
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d} h"
