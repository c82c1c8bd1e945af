"""`sparklake purge`: run, resume, list, show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import RepositoryArgument, YesOption, argument, flag, option
from sparklake.cli.text import date, one_line
from sparklake.documents import purge_document
from sparklake.uri import repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.graveler.ports.registers import Purge

app = Group("purge", "Purges from all of history: run, resume, list, show.")

PurgeArgument = Annotated[str, argument("PURGE")]


@app.add()
def run(
    invocation: Invocation,
    uri: RepositoryArgument,
    patterns: Annotated[list[str], argument("PATTERN...")],
    message: Annotated[str, option("Record this reason in the receipt.", "--message", "-m")] = "",
    commit: Annotated[bool, flag("First commit the removal of the paths on each branch.")] = False,
    include_shared: Annotated[bool, flag("Also delete bytes shared with other paths.")] = False,
    include_external: Annotated[
        bool, flag("Also delete imported objects at their source.")
    ] = False,
    dry_run: Annotated[bool, flag("Only count; delete nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Delete the bytes of objects from all of history.

    PATTERN is a path, a glob, or a prefix that ends with a slash. Commits keep their ids.
    """
    repository = invocation.repository(repository_uri(uri))
    if not (dry_run or yes):
        targets = ", ".join(map(one_line, patterns))
        invocation.out.confirm(
            f"This permanently deletes {targets} from all of {repository.name}'s history. "
            "--dry-run counts what would be deleted.",
            "Delete it?",
        )
    with invocation.out.working("purging"):
        purge = repository.purge(
            patterns, message, commit, include_shared, include_external, dry_run
        )
    receipt = "" if dry_run else repository.receipt(purge.id)
    _print(invocation, purge, receipt, "would purge" if dry_run else "purged")


@app.add()
def resume(invocation: Invocation, uri: RepositoryArgument, purge: PurgeArgument) -> None:
    """Resume an unfinished purge."""
    repository = invocation.repository(repository_uri(uri))
    with invocation.out.working("purging"):
        result = repository.resume_purge(purge)
    _print(invocation, result, repository.receipt(result.id), "purged")


@app.add("list")
def list_purges(invocation: Invocation, uri: RepositoryArgument) -> None:
    """List the purges of a repository, newest first."""
    repository = invocation.repository(repository_uri(uri))
    documents = [purge_document(each, repository.receipt(each.id)) for each in repository.purges()]
    invocation.out.table(
        documents,
        {
            "id": lambda each: each["id"],
            "date": lambda each: date(each["date"]),
            "who": lambda each: each["who"],
            "state": lambda each: each["state"],
            "objects": lambda each: f"{each['counts']['addresses']:,}",
            "patterns": lambda each: " ".join(each["patterns"]),
        },
    )


@app.add()
def show(invocation: Invocation, uri: RepositoryArgument, purge: PurgeArgument) -> None:
    """Show a purge and the location of its receipt."""
    repository = invocation.repository(repository_uri(uri))
    result = repository.get_purge(purge)
    _print(invocation, result, repository.receipt(result.id), result.state.value)


def _print(invocation: Invocation, purge: Purge, receipt: str, verb: str) -> None:
    counts = purge.counts
    text = (
        f"{verb} {count_of(counts.addresses, 'object')} of {count_of(counts.paths, 'path')}, "
        f"{count_of(counts.size, 'byte')}; "
        f"{counts.external:,} outside the namespace, {counts.shared:,} shared with other paths"
    )
    if receipt:
        text += f"\npurge {purge.id}, receipt in {one_line(receipt)}"
    invocation.out.one(purge_document(purge, receipt), text)
