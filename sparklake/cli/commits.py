"""`sparklake commit`, `reset` and `diff`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklake.cli import options
from sparklake.cli.commit_text import note_staged, print_commit
from sparklake.cli.conflict_text import side_lines
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, option
from sparklake.cli.output import Output
from sparklake.cli.parsing import TREE_DEPTH, DiffShape, diff_shape, labels
from sparklake.cli.plans import ExplainOption, print_explanation
from sparklake.cli.spark_rows import ToOption, save_differences
from sparklake.cli.text import SIGNS, one_line, size, total
from sparklake.documents import Document, diff_document, diff_tree_document, folder_diff_document
from sparklake.errors import InvalidInputError
from sparklake.uri import ref_uri
from sparklake.visible import count_of, visible_text

if TYPE_CHECKING:
    from sparklake.verbs.diffs.differences import Differences, DiffTree

MOST_LINES = 100


def counts_line(out: Output, each: Document) -> str:
    counts = [
        out.coloured(f"{sign}{each[kind]:,}", colour)
        for kind, (sign, colour) in SIGNS.items()
        if each[kind]
    ]
    bytes_moved = [
        out.coloured(f"{sign}{size(each[f'bytes_{kind}'])}", colour)
        for kind, (sign, colour) in SIGNS.items()
        if each.get(f"bytes_{kind}")
    ]
    return "  ".join(filter(None, [" ".join(counts), " ".join(bytes_moved)])) or "no difference"


def tree_lines(out: Output, tree: DiffTree, before: str = "") -> Iterator[str]:
    """Yield the lines below a folder, at most `MOST_LINES` for each level."""
    children: Sequence[DiffTree] = list(tree.children.values())
    more = len(children) - MOST_LINES
    for place, child in enumerate(children[:MOST_LINES], start=1):
        is_last = place == len(children)
        name = child.total.path[len(tree.total.path) :]
        numbers = counts_line(out, folder_diff_document(child.total))
        yield f"{before}{'`-- ' if is_last else '|-- '}{one_line(name)}  {numbers}"
        yield from tree_lines(out, child, f"{before}{'    ' if is_last else '|   '}")
    if more > 0:
        yield f"{before}`-- ... and {more:,} more"


_LINE_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@command
def commit(
    invocation: Invocation,
    uri: options.BranchArgument,
    message: options.MessageOption = None,
    committer: options.CommitterOption = None,
    meta: options.MetaOption = None,
    allow_empty: Annotated[bool, flag("Allow an empty commit.")] = False,
    path: options.PathsOption = None,
    explain: ExplainOption = False,
    if_needed: options.IfNeededOption = False,
    once: options.OnceOption = None,
) -> None:
    """Commit the staged changes of a branch, or of selected paths."""
    target, metadata = ref_uri(uri), labels(meta)
    # With JSON output the verb itself refuses, so that programs get the error as JSON.
    if message is None and not (explain or invocation.out.is_json):
        raise typer.BadParameter("describe what changed and why.", param_hint="'--message' / '-m'")
    branch = invocation.repository(target.repository).branch(target.ref)
    if explain:
        print_explanation(invocation.out, branch.plan(path or None))
        return
    with invocation.out.working("committing"):
        new_commit = invocation.run(
            branch.commit,
            message or "",
            committer=committer,
            metadata=metadata,
            allow_empty=allow_empty,
            paths=path or None,
            if_needed=if_needed,
            once=invocation.once(once),
        )
    print_commit(invocation.out, target.ref, new_commit)


@command
def reset(
    invocation: Invocation,
    uri: options.BranchArgument,
    prefix: Annotated[
        str | None, option("Drop only changes of keys with this prefix.", metavar="PREFIX")
    ] = None,
    path: Annotated[
        str | None, option("Drop only the change of this key.", "--object", metavar="KEY")
    ] = None,
    yes: options.YesOption = False,
    once: options.OnceOption = None,
) -> None:
    """Drop all or some of the staged changes of a branch."""
    target = ref_uri(uri)
    branch = invocation.repository(target.repository).branch(target.ref)
    place = str(target) if path is prefix is None else f"{target}/{prefix or path or ''}"
    staged = branch.count_staged()
    if staged and not yes:
        part = "" if path is prefix is None else f" those of {one_line(place)} among"
        invocation.out.confirm(
            f"This drops{part} the {count_of(staged, 'staged change')} of {target}, which cannot "
            "be restored.",
            "Drop them?",
        )
    invocation.run(branch.reset, prefix, path, invocation.once(once))
    count = max(0, staged - branch.count_staged())  # Other writers may stage more.
    document = {"name": target.ref, "dirty": branch.is_dirty, "dropped": count}
    text = f"dropped {count_of(count, 'staged change')}: {one_line(place)} has none now"
    invocation.out.one(document, text)


@command
def diff(
    invocation: Invocation,
    left: Annotated[str, argument("lakefs://REPO/LEFT")],
    right: Annotated[str | None, argument("[lakefs://REPO/RIGHT]")] = None,
    three_way: Annotated[
        bool, flag("Show changes and conflicts of merging RIGHT into LEFT.")
    ] = False,
    prefix: Annotated[str, option("Show only keys with this prefix.", metavar="PREFIX")] = "",
    three_dot: Annotated[bool, flag("Show the changes of RIGHT since the merge base.")] = False,
    by_folder: Annotated[bool, flag("Count objects and bytes by folder.")] = False,
    tree: Annotated[bool, flag("Show the folders as a tree.")] = False,
    summary: Annotated[bool, flag("Show only the totals.")] = False,
    depth: Annotated[
        int | None, option("Number of folder levels (default: 1, or 3 with --tree).", min=1)
    ] = None,
    content: Annotated[bool, flag("Show the changed lines of text objects.")] = False,
    to: ToOption = None,
    explain: ExplainOption = False,
) -> None:
    """Compare two refs, or show the staged changes of a branch."""
    shape = diff_shape(by_folder=by_folder, tree=tree, summary=summary, depth=depth)
    if to is not None and shape is not DiffShape.ROWS:
        raise InvalidInputError("--to writes rows: remove --by-folder, --tree or --summary")
    if content and (to is not None or explain or shape is not DiffShape.ROWS):
        raise InvalidInputError("--content compares lines of both sides: remove the other option")
    invocation.uses_spark = to is not None
    invocation.page()
    left, right = _sides(invocation, left, right)
    diffs = _diff(invocation, left, right, prefix, three_way=three_way, three_dot=three_dot)
    if explain:
        print_explanation(invocation.out, diffs.explain())
        return
    if to is not None:
        _save(invocation.out, diffs, to)
    elif content:
        ref = None if right is None else ref_uri(right).ref
        left_uri = ref_uri(left)
        texts = invocation.repository(left_uri.repository).diff_texts(
            left_uri.ref, ref, prefix, three_dot, three_way
        )
        documents = ({**diff_document(each.row), **each.document()} for each in texts)
        _print_rows(invocation.out, documents)
    elif shape is DiffShape.ROWS:
        _print_rows(invocation.out, map(diff_document, diffs))
    else:
        with invocation.out.working("comparing"):
            _print_shape(invocation.out, diffs, shape, depth)
    if right is not None:
        note_staged(invocation, left, right, done="compared")
    elif not invocation.is_dirty(left):
        invocation.out.note(f"{left} has no staged changes: add a second ref to compare commits")


def _sides(invocation: Invocation, one: str, other: str | None) -> tuple[str, str | None]:
    if other is not None:
        first, second = map(str, invocation.two_refs(one, other))
        return first, second
    first, dots, second = one.partition("..")
    if dots:
        two = f"{first} {second.lstrip('.')}"
        raise InvalidInputError(f"{one!r} is a range: write two refs, {two}")
    return one, None


def _save(out: Output, diffs: Differences[Any], to: str) -> None:
    with out.working("comparing"):
        counts = save_differences(diffs, to)
    out.one(counts, f"{total(counts)}; the rows are in {one_line(to)}")


def _content_lines(out: Output, document: Document) -> Iterator[str]:
    if document.get("reason"):
        yield f"    {document['reason']}"
    for line in document.get("lines", ()):
        yield out.coloured(visible_text(line), _LINE_COLOURS.get(line[:1], ""))


def _print_rows(out: Output, documents: Iterable[Document]) -> None:
    counts: Counter[str] = Counter()

    def line(each: Document) -> str:
        counts[each["type"]] += 1
        sign, colour = SIGNS[each["type"]]
        text = f"{sign} {each['type']:<8}  {size(each['size']):>9}  {one_line(each['path'])}"
        sides = side_lines(each) if each["type"] == "conflict" else ()
        return "\n".join([out.coloured(text, colour), *sides, *_content_lines(out, each)])

    with out.working("comparing"):
        out.many(documents, line)
    out.note(total(counts))
    if counts.total() > MOST_LINES and sys.stderr.isatty():
        out.note("--by-folder, --tree and --summary show less")


def _print_shape(out: Output, diffs: Differences[Any], shape: DiffShape, depth: int | None) -> None:
    if shape is DiffShape.SUMMARY:
        document = folder_diff_document(diffs.summary())
        out.one(document, counts_line(out, document))
    elif shape is DiffShape.TREE:
        tree = diffs.tree(depth or TREE_DEPTH, MOST_LINES)
        head = one_line(tree.total.path) or "."
        total_line = counts_line(out, folder_diff_document(tree.total))
        lines = [f"{head}  {total_line}", *tree_lines(out, tree)]
        out.one(diff_tree_document(tree), "\n".join(lines))
    else:
        folders = map(folder_diff_document, diffs.by_folder(depth or 1))
        out.many(folders, lambda each: f"{one_line(each['path'])}  {counts_line(out, each)}")


def _diff(
    invocation: Invocation,
    left: str,
    right: str | None,
    prefix: str,
    *,
    three_way: bool,
    three_dot: bool,
) -> Differences[Any]:
    one = ref_uri(left)
    if right is not None:
        repository, ref = invocation.repository(one.repository), ref_uri(right).ref
        return repository.diff(one.ref, ref, prefix, three_way, three_dot)
    if three_way or three_dot:
        word = "--three-way" if three_way else "--three-dot"
        raise InvalidInputError(f"{word} compares two refs: add the second one")
    return invocation.repository(one.repository).diff_uncommitted(one.ref, prefix)
