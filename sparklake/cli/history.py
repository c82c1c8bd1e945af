"""`sparklake log`, `show`, `status` and `blame`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

from sparklake.cli.absent_paths import some_of
from sparklake.cli.commit_text import commit_lines, subject
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import BranchArgument, argument, flag, option
from sparklake.cli.output import Output
from sparklake.cli.parsing import moment, required_metadata
from sparklake.cli.text import change_counts, date, field_lines, first_line, one_line, short
from sparklake.documents import (
    Document,
    blame_document,
    log_document,
    status_document,
    summary_document,
)
from sparklake.errors import InvalidInputError
from sparklake.uri import prefix_uri, ref_in, ref_uri
from sparklake.visible import count_of

# Lazy imports: --help does not need them.
if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit
    from sparklake.repository import Repository

RefArgument = Annotated[str, argument("lakefs://REPO/REF")]


@command
def log(
    invocation: Invocation,
    uri: RefArgument,
    amount: Annotated[
        int | None, option("Show at most this many commits.", "--amount", "-n", min=1)
    ] = None,
    after: Annotated[
        str | None, option("Show only commits after this one in the list.", metavar="REF")
    ] = None,
    since: Annotated[str | None, option("Show no older commits.", metavar="TIME")] = None,
    until: Annotated[str | None, option("Show no newer commits.", metavar="TIME")] = None,
    stop_at: Annotated[str | None, option("Stop at this commit.", metavar="REF")] = None,
    first_parent: Annotated[bool, flag("Follow only the first parent of merges.")] = False,
    no_merges: Annotated[bool, flag("Omit merge commits.")] = False,
    path: Annotated[
        str | None, option("Show only commits that changed this object.", metavar="PATH")
    ] = None,
    prefix: Annotated[
        str | None,
        option("Show only commits that changed keys with this prefix.", metavar="PREFIX"),
    ] = None,
    author: Annotated[
        str | None, option("Show only commits of matching committers.", metavar="REGEX")
    ] = None,
    grep: Annotated[
        str | None, option("Show only commits with matching messages.", metavar="REGEX")
    ] = None,
    meta: Annotated[
        list[str] | None,
        option("Show only commits with this metadata; repeatable.", "--meta", metavar="K[=V]"),
    ] = None,
    with_graph: Annotated[bool, flag("Draw the commit graph (the default).", "--graph")] = False,
    oneline: Annotated[bool, flag("Show each commit on one line.")] = False,
    picture: Annotated[
        str | None, option("Draw the history as .svg.", "--picture", metavar="FILE")
    ] = None,
) -> None:
    """Show the commits reachable from a ref, newest first.

    TIME is 2024-05-31, '2024-05-31 12:00' (both in UTC) or 2024-05-31T12:00:00+02:00. REGEX
    ignores case.
    """
    from sparklake.verbs.history.graph import history_graph

    if (with_graph or oneline) and invocation.out.is_json:
        raise InvalidInputError(
            "--graph and --oneline print text: remove --output, or use --picture FILE"
        )
    target = ref_uri(uri)
    earliest, latest = moment(since), moment(until)
    invocation.page()
    repository = invocation.repository(target.repository)
    commits = repository.log(
        target.ref,
        amount,
        after=after,
        since=earliest,
        until=latest,
        stop_at=stop_at,
        first_parent=first_parent,
        no_merges=no_merges,
        path=path,
        prefix=prefix,
        author=author,
        grep=grep,
        metadata=required_metadata(meta),
    )
    # If commits are left out, no lines connect the others.
    is_part = (
        no_merges or bool(meta) or any(each is not None for each in (path, prefix, author, grep))
    )
    sides = 0 if is_part else 1 if first_parent else None
    if picture is not None:
        drawing = history_graph(commits, ref_names(repository), sides)
        drawing.save(picture)
        document = {"picture": picture, "commits": len(drawing.nodes)}
        invocation.out.one(
            document, f"{count_of(len(drawing.nodes), 'commit')} drawn in {one_line(picture)}"
        )
        return
    place = path or prefix or ""
    entries = some_of(commits.marked(), repository, target.ref, place, whole=bool(path))
    if invocation.out.is_json:
        invocation.out.many(map(log_document, entries), str)
        return
    names = ref_names(repository)
    style = {"has_graph": with_graph or not oneline, "has_details": not oneline}
    for line in graph_lines(invocation.out, entries, names, sides, **style):
        invocation.out.write(f"{line}\n")


@command
def show(invocation: Invocation, uri: RefArgument) -> None:
    """Show a commit and the number of its changes.

    Changes are relative to the first parent.
    """
    target = ref_uri(uri)
    invocation.page()
    with invocation.out.working("comparing"):
        summary = invocation.repository(target.repository).show(target.ref)
    commit, document = summary.commit, summary_document(summary)
    changes = "unknown: a garbage collection has deleted a tree"
    if summary.added is not None:
        changes = change_counts(document["changes"])
    lines = {
        "commit": invocation.out.coloured(commit.id, "yellow"),
        "parents": ", ".join(map(short, commit.parents)) or "none",
        "committer": one_line(commit.committer),
        "date": date(commit.creation_date),
        "tree": commit.meta_range_id or "empty",
        **({"expired": "its objects may be gone"} if summary.has_expired else {}),
        **{f"meta {one_line(name)}": one_line(value) for name, value in commit.metadata.items()},
        "changes": changes,
        "message": "\n".join(map(one_line, commit.message.strip().splitlines())),
    }
    invocation.out.one(document, field_lines(lines))


@command
def status(
    invocation: Invocation,
    uri: BranchArgument,
    against: Annotated[
        str | None,
        option(
            "Count commits against this ref. Default: the default branch.",
            metavar="lakefs://REPO/REF",
        ),
    ] = None,
) -> None:
    """Show head, staged changes and divergence of a branch."""
    target = ref_uri(uri)
    other = None if against is None else ref_in(target.repository, against)
    branch = invocation.repository(target.repository).branch(target.ref)
    with invocation.out.working("comparing"):
        report = branch.status(other.ref if other else None)
    document = status_document(target.ref, report)
    staged = document["staged"]
    lines = [
        f"{invocation.out.coloured(str(target), 'green')} is at "
        f"{invocation.out.coloured(short(report.head.id), 'yellow')} {subject(report.head)}",
        f"staged: {change_counts(staged) if any(staged.values()) else 'nothing'}",
        f"{count_of(report.ahead, 'commit')} ahead of {one_line(report.against)}, "
        f"{report.behind:,} behind",
    ]
    invocation.out.one(document, "\n".join(lines))


@command
def blame(
    invocation: Invocation, uri: Annotated[str, argument("lakefs://REPO/REF/[PREFIX]")]
) -> None:
    """Show, for each object, the last commit that changed it."""
    place = prefix_uri(uri)
    repository = invocation.repository(place.repository)

    def line(each: Document) -> str:
        commit_id = invocation.out.coloured(short(each["commit_id"]), "yellow")
        what = f"{one_line(each['committer'])}: {first_line(each['message'])}"
        words = (
            commit_id,
            date(each["creation_date"]),
            one_line(each["path"]),
            invocation.out.coloured(what, "dim"),
        )
        return "  ".join(words)

    with invocation.out.working("reading the history"):
        changes = repository.blame(place.ref, place.key)
        rows = some_of(changes, repository, place.ref, place.key)
        invocation.out.many(map(blame_document, rows), line)


def ref_names(repository: Repository) -> dict[str, list[str]]:
    from sparklake.verbs.history.graph import names_of

    return names_of(repository.branch_states(), repository.tags())


def graph_lines(
    out: Output,
    commits: Iterable[tuple[Commit, bool]],
    names: dict[str, list[str]],
    sides: int | None = None,
    *,
    has_graph: bool = True,
    has_details: bool = True,
) -> Iterator[str]:
    """Yield a history as lines of a graph, with links to the first `sides` parents."""
    from sparklake.verbs.history.graph import Lanes

    columns = Lanes()
    for each, has_expired in commits:
        drawing = columns.draw(each.id, each.parents[:sides])
        refs = f"({', '.join(names[each.id])})" if each.id in names else ""
        words = (
            out.coloured(short(each.id), "yellow"),
            out.coloured(refs, "green") if refs else "",
            out.coloured("[expired]", "red") if has_expired else "",
            subject(each),
        )
        line = " ".join(filter(None, words))
        yield f"{drawing.node}  {line}" if has_graph else line
        for detail in commit_lines(each) if has_details else ():
            for line in out.wrapped(detail, len(drawing.beside) + 2):
                yield f"{drawing.beside}  {out.coloured(line, 'dim')}"
        yield from (link.rstrip() for link in drawing.links if has_graph)
