"""`sparklake gc`: run, list, and the retention rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import RepositoryArgument, YesOption, argument, flag, option
from sparklake.cli.parsing import branch_days, duration
from sparklake.cli.text import date, one_line, size
from sparklake.documents import Document, collection_document, object_document, retention_document
from sparklake.uri import SCHEME, repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.graveler.retention import Retention
    from sparklake.verbs.gc.collect import Collection

rules = Group("rules", "Retention of commits: set, show, clear.")


@rules.add("set")
def set_rules(
    invocation: Invocation,
    uri: RepositoryArgument,
    default: Annotated[
        int, option("Days to keep tags, other branches and unreachable commits.", metavar="DAYS")
    ],
    branch: Annotated[
        list[str] | None,
        option(
            "Days for matching branches; repeatable. The first match applies.",
            metavar="PATTERN=DAYS",
        ),
    ] = None,
    trees: Annotated[
        int | None,
        option(
            "Delete trees this long after a commit expires.",
            metavar="DAYS",
            show_default="keep all trees",
        ),
    ] = None,
) -> None:
    """Set how many days commits are kept; replaces all rules.

    In a pattern, * matches any characters and ? matches one. Older commits expire at the next
    collection, but a branch keeps the commit that it had when the period started. A commit without
    its tree stays in the log, but it cannot be listed or compared.
    """
    settings = invocation.repository(repository_uri(uri)).settings
    _tell(invocation, settings.set_retention(default, branch_days(branch), trees))


@rules.add()
def show(invocation: Invocation, uri: RepositoryArgument) -> None:
    """Show how long commits are kept."""
    _tell(invocation, invocation.repository(repository_uri(uri)).settings.retention)


@rules.add()
def clear(invocation: Invocation, uri: RepositoryArgument) -> None:
    """Keep all commits that have not expired yet."""
    invocation.repository(repository_uri(uri)).settings.clear_retention()
    _tell(invocation, None)


def _tell(invocation: Invocation, retention: Retention | None) -> None:
    lines = ["every commit is kept"]
    if retention is not None:
        lines = [f"{each.pattern}: {count_of(each.days, 'day')}" for each in retention.branches]
        lines.append(f"all others: {count_of(retention.default_days, 'day')}")
        if retention.tree_days is None:
            lines.append("trees of expired commits: kept")
        else:
            lines.append(f"trees of expired commits: {count_of(retention.tree_days, 'day')} more")
    invocation.out.one(retention_document(retention), "\n".join(lines))


app = Group("gc", "Garbage collection: run, list, rules.")
app.add_typer(rules)


@app.add()
def run(
    invocation: Invocation,
    uri: RepositoryArgument,
    dry_run: Annotated[
        bool, flag("List the garbage; delete nothing.", "--dry-run", "--mark-only")
    ] = False,
    sweep: Annotated[
        str | None, option("Delete the garbage found by this dry run.", metavar="RUN")
    ] = None,
    grace: Annotated[str, option("Keep objects younger than this: 30m, 12h, 7d.")] = "6h",
    work: Annotated[
        str | None,
        option(
            "Write the lists here, if the namespace is full.",
            metavar="FOLDER|URI",
            show_default="in the namespace",
        ),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Delete unreferenced objects, and let commits expire.

    Commits no longer covered by the retention rules expire first. If the rules include trees,
    unreferenced ranges and metaranges are deleted, too.
    """
    spared = duration(grace)
    repository = invocation.repository(repository_uri(uri))
    if not (dry_run or yes):
        invocation.out.confirm(
            "This permanently deletes all objects below data/ in "
            f"{one_line(repository.info.storage_namespace)} that no kept commit and no staged "
            "change names, and trees that the rules no longer keep. --dry-run lists them.",
            "Delete them?",
        )
    with invocation.out.working("collecting garbage"):
        collection = repository.collect_garbage(dry_run, sweep, spared, work)
    invocation.out.one(collection_document(collection), _told(collection, repository.name))


@app.add("list")
def list_garbage(
    invocation: Invocation, uri: RepositoryArgument, run_id: Annotated[str, argument("RUN")]
) -> None:
    """List all garbage found by a run."""
    rows = invocation.repository(repository_uri(uri)).garbage(run_id)

    def line(each: Document) -> str:
        return f"{size(each['size']):>9}  {date(each['mtime'])}  {one_line(each['address'])}"

    invocation.out.many(map(object_document, rows), line)


def _told(result: Collection, name: str) -> str:
    run = result.run
    what = f"{count_of(run.objects, 'object')} with {size(run.bytes)} in total"
    outcome = "deleted" if run.state == "swept" else "can be deleted"
    lines = [f"{what} {outcome}, of {run.objects_listed:,} below data/ of {SCHEME}{name}"]
    if run.young:
        lines.append(f"{count_of(run.young, 'object')} more: unreferenced, in the grace period")
    if run.commits_expired:
        verb = "expired" if run.state == "swept" else "would expire"
        lines.append(f"{count_of(run.commits_expired, 'commit')} {verb}")
    if run.trees or run.tree_files:
        what = f"{count_of(run.trees, 'tree')} of expired commits"
        tables = f"{count_of(run.tree_files, 'tree file')} with {size(run.tree_file_bytes)}"
        lines.append(f"{what} given up: {tables} {outcome}")
    lines += [f"    {one_line(each.path)}  {size(each.size)}" for each in result.sample]
    lines.append(f"list all of them: sparklake gc list {SCHEME}{name} {run.id}")
    return "\n".join(lines)
