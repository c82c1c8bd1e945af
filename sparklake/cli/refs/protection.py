"""`sparklake protect`: add, list, remove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import RepositoryArgument, argument, option
from sparklake.documents import rule_document
from sparklake.graveler.guards import ALL_ACTIONS, Action
from sparklake.uri import repository_uri

if TYPE_CHECKING:
    from sparklake.repository import Repository

app = Group("protect", "Protection of branches: add, list, remove.")

PatternsArgument = Annotated[list[str], argument("PATTERN...")]


@app.add()
def add(
    invocation: Invocation,
    uri: RepositoryArgument,
    patterns: PatternsArgument,
    block: Annotated[
        list[Action] | None,
        option("Block only stage, commit, reset or delete; repeatable.", metavar="ACTION"),
    ] = None,
) -> None:
    """Protect matching branches; merges into them remain allowed.

    This includes future branches. In a pattern, * matches any characters and ? matches one. A rule
    with the same pattern is replaced.
    """
    repository = invocation.repository(repository_uri(uri))
    repository.settings.protect(*patterns, block=block or ALL_ACTIONS)
    _table(invocation, repository)


@app.add("list")
def list_rules(invocation: Invocation, uri: RepositoryArgument) -> None:
    """List the protection rules of a repository."""
    _table(invocation, invocation.repository(repository_uri(uri)))


@app.add()
def remove(invocation: Invocation, uri: RepositoryArgument, patterns: PatternsArgument) -> None:
    """Remove the rules with exactly these patterns, or none."""
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
