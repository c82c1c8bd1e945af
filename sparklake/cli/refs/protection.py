"""`sparklake protect`: add, list, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import global_options
from sparklake.documents import rule_document
from sparklake.graveler.guards import ALL_ACTIONS, Action
from sparklake.uri import repository_uri

if TYPE_CHECKING:
    from sparklake.repository import Repository

app = typer.Typer(
    name="protect", help="Protection of branches: add, list, remove.", no_args_is_help=True
)
app.callback()(global_options)

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]
PatternsArgument = Annotated[list[str], typer.Argument(metavar="PATTERN...", show_default=False)]


@app.command()
@command
def add(
    invocation: Invocation,
    uri: RepositoryArgument,
    patterns: PatternsArgument,
    block: Annotated[
        list[Action] | None,
        typer.Option(
            metavar="ACTION", help="Block only stage, commit, reset or delete; repeatable."
        ),
    ] = None,
) -> None:
    """Protect matching branches; merges into them stay allowed.

    This includes future branches. In a pattern, * matches any characters and ? matches one. A rule
    with the same pattern is replaced.
    """
    repository = invocation.repository(repository_uri(uri))
    repository.settings.protect(*patterns, block=block or ALL_ACTIONS)
    _table(invocation, repository)


@app.command("list")
@command
def list_rules(invocation: Invocation, uri: RepositoryArgument) -> None:
    """List the protection rules of a repository."""
    _table(invocation, invocation.repository(repository_uri(uri)))


@app.command()
@command
def remove(invocation: Invocation, uri: RepositoryArgument, patterns: PatternsArgument) -> None:
    """Remove the rules with exactly these patterns (all or none)."""
    repository = invocation.repository(repository_uri(uri))
    repository.settings.unprotect(*patterns)
    _table(invocation, repository)


def _table(invocation: Invocation, repository: Repository) -> None:
    invocation.out.table(
        [rule_document(each) for each in repository.settings.protection],
        {
            "pattern": lambda each: each["pattern"],
            "blocked": lambda each: ", ".join(each["blocked"]),
        },
    )
