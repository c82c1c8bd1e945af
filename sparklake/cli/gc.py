"""`sparklake gc`: run, list, and the retention rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import YesOption, global_options
from sparklake.cli.parsing import branch_days, duration
from sparklake.cli.text import date, number, one_line, size
from sparklake.documents import Document, collection_document, object_document, retention_document
from sparklake.uri import SCHEME, repository_uri

if TYPE_CHECKING:
    from sparklake.graveler.retention import Retention
    from sparklake.verbs.gc.collect import Collection

rules = typer.Typer(
    name="rules", help="Retention of commits: set, show, clear.", no_args_is_help=True
)
rules.callback()(global_options)

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]


@rules.command("set")
@command
def set_rules(
    invocation: Invocation,
    uri: RepositoryArgument,
    default: Annotated[
        int,
        typer.Option(
            metavar="DAYS", help="Days to keep tags, other branches and unreachable commits."
        ),
    ],
    branch: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATTERN=DAYS",
            help="Days for matching branches; repeatable. The first match decides.",
            show_default=False,
        ),
    ] = None,
    trees: Annotated[
        int | None,
        typer.Option(
            metavar="DAYS",
            help="Delete trees this long after a commit has expired.",
            show_default="keep all trees",
        ),
    ] = None,
) -> None:
    """Set how many days commits are kept; replace all rules.

    In a pattern, * matches any characters and ? matches one. Older commits expire at the next
    collection, but a branch keeps the commit that it had when the period started. A commit without
    its tree stays in the log, but it cannot be listed or compared.
    """
    settings = invocation.repository(repository_uri(uri)).settings
    _tell(invocation, settings.set_retention(default, branch_days(branch), trees))


@rules.command()
@command
def show(invocation: Invocation, uri: RepositoryArgument) -> None:
    """Show how long commits are kept."""
    _tell(invocation, invocation.repository(repository_uri(uri)).settings.retention)


@rules.command()
@command
def clear(invocation: Invocation, uri: RepositoryArgument) -> None:
    """Keep all commits that have not expired yet."""
    invocation.repository(repository_uri(uri)).settings.clear_retention()
    _tell(invocation, None)


def _tell(invocation: Invocation, retention: Retention | None) -> None:
    lines = ["every commit is kept"]
    if retention is not None:
        lines = [f"{each.pattern}: {number(each.days, 'day')}" for each in retention.branches]
        lines.append(f"all others: {number(retention.default_days, 'day')}")
        if retention.tree_days is None:
            lines.append("trees of expired commits: kept")
        else:
            lines.append(f"trees of expired commits: {number(retention.tree_days, 'day')} more")
    invocation.out.one(retention_document(retention), "\n".join(lines))


app = typer.Typer(name="gc", help="Garbage collection: run, list, rules.", no_args_is_help=True)
app.callback()(global_options)
app.add_typer(rules)


@app.command()
@command
def run(
    invocation: Invocation,
    uri: RepositoryArgument,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "--mark-only", help="List the garbage; delete nothing.")
    ] = False,
    sweep: Annotated[
        str | None,
        typer.Option(
            metavar="RUN", help="Delete the objects of this dry run that are still garbage."
        ),
    ] = None,
    grace: Annotated[
        str, typer.Option(help="Keep objects younger than this: 30m, 12h, 7d.")
    ] = "6h",
    work: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER|URI",
            help="Write the lists here, if the namespace is full.",
            show_default="in the namespace",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete objects that no kept commit or staged change uses.

    Commits that the retention rules no longer keep expire first. If the rules say so, ranges and
    metaranges that nothing uses are deleted, too.
    """
    spared = duration(grace)
    assert spared is not None
    repository = invocation.repository(repository_uri(uri))
    if not (dry_run or yes):
        invocation.out.confirm(
            "This permanently deletes all objects below data/ in "
            f"{one_line(repository.info.storage_namespace)} that no kept commit and no staged "
            "change names, and trees that the rules give up. --dry-run lists them.",
            "Delete them?",
        )
    with invocation.out.working("collecting garbage"):
        made = repository.collect_garbage(dry_run, sweep, spared, work)
    invocation.out.one(collection_document(made), _told(made, repository.name))


@app.command("list")
@command
def list_garbage(
    invocation: Invocation,
    uri: RepositoryArgument,
    run_id: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
) -> None:
    """List all garbage that a run found."""
    rows = invocation.repository(repository_uri(uri)).garbage(run_id)

    def line(each: Document) -> str:
        return f"{size(each['size']):>9}  {date(each['mtime'])}  {one_line(each['address'])}"

    invocation.out.many(map(object_document, rows), line)


def _told(made: Collection, name: str) -> str:
    what = f"{number(made.run.objects, 'object')} with {size(made.run.bytes)} in total"
    said = "deleted" if made.run.state == "swept" else "can be deleted"
    lines = [f"{what} {said}, of {made.run.objects_listed:,} below data/ of {SCHEME}{name}"]
    if made.run.commits_expired:
        have = "expired" if made.run.state == "swept" else "would expire"
        lines.append(f"{number(made.run.commits_expired, 'commit')} {have}")
    if made.run.trees or made.run.tree_files:
        what = f"{number(made.run.trees, 'tree')} of expired commits"
        tables = f"{number(made.run.tree_files, 'tree file')} with {size(made.run.tree_file_bytes)}"
        lines.append(f"{what} given up: {tables} {said}")
    lines += [f"    {one_line(each.path)}  {size(each.size)}" for each in made.sample]
    lines.append(f"list all of them: sparklake gc list {SCHEME}{name} {made.run.id}")
    return "\n".join(lines)
