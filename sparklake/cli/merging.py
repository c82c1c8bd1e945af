"""Between two refs: merge, merge-base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sparklake.arguments import labels, rule_pairs
from sparklake.cli.commits import described, print_commit, subject
from sparklake.cli.explaining import ExplainOption, print_explanation
from sparklake.cli.output import Output
from sparklake.cli.parameters import (
    CommitterOption,
    MessageOption,
    MetaOption,
    NoDeltaOption,
    PathsOption,
    RuleOption,
    StrategyOption,
)
from sparklake.cli.previewing import print_preview
from sparklake.cli.session import Session, command
from sparklake.cli.text import short, shown
from sparklake.documents import commit_document
from sparklake.errors import MergeConflictError
from sparklake.uri import ref_uri, same_repository

if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit
    from sparklake.udfs.read import DiffRow

_SHOWN_CONFLICTS = 100


@command
def merge(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="lakefs://REPO/SOURCE", show_default=False)],
    dest: Annotated[str, typer.Argument(metavar="lakefs://REPO/DEST", show_default=False)],
    strategy: StrategyOption = None,
    rule: RuleOption = None,
    no_delta: NoDeltaOption = False,
    message: MessageOption = None,
    committer: CommitterOption = None,
    meta: MetaOption = None,
    path: PathsOption = None,
    squash: Annotated[
        bool, typer.Option("--squash", help="As a commit whose only parent is DEST.")
    ] = False,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Even where there is nothing to merge.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Even where the repository is read-only.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show changes, conflicts and cost; change nothing.")
    ] = False,
    explain: ExplainOption = False,
) -> None:
    """Merge a ref into a branch; conflicts are listed, and then nothing is written.

    A merge of chosen paths is a commit whose only parent is DEST, as with --squash: what is merged
    later begins from the same base.
    """
    theirs, ours, metadata = ref_uri(source), ref_uri(dest), labels(meta)
    repository = session.lake.repository(same_repository(theirs, ours), force)
    if explain:
        plan = repository.plan_merge(theirs.ref, ours.ref, allow_empty, path or None)
        print_explanation(session.out, plan)
        return
    rest = "`sparklake diff --three-way` has them all"
    if dry_run:
        with session.out.working("comparing"):
            preview = repository.preview_merge(
                theirs.ref,
                ours.ref,
                strategy,
                allow_empty,
                path or None,
                rule_pairs(rule),
                not no_delta,
                squash,
            )
        print_preview(session.out, ours.ref, preview)
        if preview.conflict_count and not session.out.is_json:
            _print_conflicts(session.out, preview.conflicts, preview.conflict_count, rest)
        return
    with shown_conflicts(session.out, rest), session.out.working("merging"):
        made = repository.merge(
            *(theirs.ref, ours.ref, strategy, message, committer, metadata),
            *(squash, allow_empty, path or None),
            rules=rule_pairs(rule),
            delta=not no_delta,
        )
    print_commit(session.out, ours.ref, made)


@command
def merge_base(
    session: Session,
    left: Annotated[str, typer.Argument(metavar="lakefs://REPO/A", show_default=False)],
    right: Annotated[str, typer.Argument(metavar="lakefs://REPO/B", show_default=False)],
    every: Annotated[bool, typer.Option("--all", help="A list of all that are best.")] = False,
) -> None:
    """Show the best common ancestor of two refs; criss-cross merges make several."""
    one, other = ref_uri(left), ref_uri(right)
    repository = session.repository(same_repository(one, other))

    def text(found: Commit) -> str:
        first = f"{session.out.coloured(short(found.id), 'yellow')} {subject(found)}"
        return "\n    ".join([first, *described(found)])

    if every:
        commits = repository.merge_bases(one.ref, other.ref)
        texts = {each.id: text(each) for each in commits}
        session.out.many(map(commit_document, commits), lambda each: texts[each["id"]])
        return
    found = repository.merge_base(one.ref, other.ref)
    session.out.one(commit_document(found), text(found))


@contextmanager
def shown_conflicts(out: Output, rest: str) -> Iterator[None]:
    """Prints what both sides changed where that stops a verb; `rest` says who prints more."""
    try:
        yield
    except MergeConflictError as error:
        if not out.is_json:
            _print_conflicts(out, error.conflicts, error.count, rest)
        raise


def _print_conflicts(out: Output, conflicts: Sequence[Any], count: int, rest: str) -> None:
    rows: Sequence[DiffRow] = conflicts[:_SHOWN_CONFLICTS]
    out.table(
        [
            {
                "path": row.path,
                "base": row.base_checksum,
                "source": row.right_checksum,
                "dest": row.left_checksum,
            }
            for row in rows
        ],
        {
            "conflict": lambda each: shown(each["path"]),
            "base": lambda each: each["base"] or "-",
            "source": lambda each: each["source"] or "removed",
            "dest": lambda each: each["dest"] or "removed",
        },
    )
    for reason in dict.fromkeys(row.reason for row in rows if row.reason is not None):
        out.note(shown(reason))
    if count > len(rows):
        out.note(f"... and {count - len(rows):,} more; {rest}")
