"""`sparklake gc rules`: set, show, clear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.arguments import branch_days
from sparklake.cli.options import global_options
from sparklake.cli.session import Session, command
from sparklake.cli.text import number
from sparklake.documents import retention_document
from sparklake.uri import repository_uri

if TYPE_CHECKING:
    from sparklake.graveler.retention import Retention

app = typer.Typer(
    name="rules", help="For how long commits are kept: set, show, clear.", no_args_is_help=True
)
app.callback()(global_options)

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]


@app.command("set")
@command
def set_rules(
    session: Session,
    uri: RepositoryArgument,
    default: Annotated[
        int,
        typer.Option(
            metavar="DAYS", help="Where no rule fits, for tags, and what no branch leads to."
        ),
    ],
    branch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=DAYS",
            help="For branches whose names fit, the first rule first. May be given several times.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Let collections take what only older commits name; all rules before are replaced.

    In a pattern * is any characters and ? is one. What a branch held when the time began stays.
    """
    settings = session.repository(repository_uri(uri)).settings
    _tell(session, settings.set_retention(default, branch_days(branch)))


@app.command()
@command
def show(session: Session, uri: RepositoryArgument) -> None:
    """Show for how long commits are kept."""
    _tell(session, session.repository(repository_uri(uri)).settings.retention)


@app.command()
@command
def clear(session: Session, uri: RepositoryArgument) -> None:
    """Let every commit be kept that has not expired by now."""
    session.repository(repository_uri(uri)).settings.clear_retention()
    _tell(session, None)


def _tell(session: Session, retention: Retention | None) -> None:
    lines = ["every commit is kept"]
    if retention is not None:
        lines = [f"{each.pattern}: {number(each.days, 'day')}" for each in retention.branches]
        lines.append(f"all else: {number(retention.default_days, 'day')}")
    session.out.one(retention_document(retention), "\n".join(lines))
