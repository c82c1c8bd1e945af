"""`sparklake merge`, `merge-base`, `revert`, `cherry-pick` and `rebase`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

from sparklake.cli import options
from sparklake.cli.commit_text import (
    commit_lines,
    note_staged,
    print_commit,
    print_commits,
    subject,
)
from sparklake.cli.conflict_text import print_conflict_rows, print_conflicts, print_rows
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, option
from sparklake.cli.output import Output
from sparklake.cli.parsing import labels, rule_pairs
from sparklake.cli.plans import ExplainOption, described_cost, print_explanation
from sparklake.cli.text import one_line, short, size
from sparklake.documents import branch_document, commit_document, preview_document
from sparklake.errors import MergeConflictError
from sparklake.uri import ref_in, ref_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.graveler.commits import Commit
    from sparklake.repository import Repository
    from sparklake.verbs.merges.preview import MergePreview
    from sparklake.verbs.tables.row_merges import RowMergeCounts


_STAGED = (
    "staged changes of {} stay staged: the merge is rejected if it changes the same paths or tables"
)


def print_preview(out: Output, dest: str, preview: MergePreview) -> None:
    changes = ", ".join(
        f"{count:,} {kind} ({size(volume)})"
        for kind, count, volume in (
            ("added", preview.added, preview.added_bytes),
            ("removed", preview.removed, preview.removed_bytes),
            ("changed", preview.changed, preview.changed_bytes),
        )
    )
    merged = ", ".join(preview.merged_tables)
    winners = ", ".join(f"{name} ({side})" for name, side in preview.table_winners.items())
    lines = [
        f"would merge {short(preview.source.id)} into {out.coloured(dest, 'green')} "
        f"over {short(preview.base.id)}",
        changes,
        f"{count_of(preview.conflict_count, 'conflict')}, {preview.unresolved:,} unresolved",
        *([f"united: tables {merged}"] if merged else []),
        *([f"taken as a whole: tables {winners}"] if winners else []),
        *(f"dropped: table {name}: {each}" for name, each in preview.dropped_commits.items()),
        *(_row_line(name, each) for name, each in preview.row_merges.items()),
        *([_STAGED.format(dest)] if preview.dirty else []),
        described_cost(out, preview.cost),
        f"to merge exactly these commits: --expect-source {short(preview.source.id)} "
        f"--expect-dest {short(preview.dest.id)}",
    ]
    out.one(preview_document(preview), "\n".join(lines))


def _row_line(table: str, counts: RowMergeCounts) -> str:
    conflicts = f", {count_of(counts.conflicts, 'row')} in conflict" if counts.conflicts else ""
    read = f"reads {count_of(counts.files, 'file')} ({size(counts.bytes)})"
    return f"rows of {one_line(table)}: {counts}{conflicts}; {read}"


class _Decisions(TypedDict):
    strategy: str | None
    rules: list[tuple[str, str]]
    unite_tables: bool
    schema_check: bool


class _MergeChoices(_Decisions):
    squash: bool
    allow_empty: bool
    paths: list[str] | None


@dataclass(frozen=True, slots=True)
class DecisionArguments:
    strategy: options.StrategyOption = None
    rule: options.RuleOption = None
    no_table_unions: options.NoTableUnionsOption = False
    no_schema_check: options.NoSchemaCheckOption = False
    show_rows: options.ShowRowsOption = False
    conflict_rows: options.ConflictRowsOption = None

    @property
    def merges_rows(self) -> bool:
        return any(name.startswith("rows") for _, name in rule_pairs(self.rule))

    def note_sides(self, out: Output, source: str, dest: str) -> None:
        names = {self.strategy, *(name for _, name in rule_pairs(self.rule))}
        for name, side in (("ours", dest), ("theirs", source)):
            if name in names:
                out.note(f"{name} is {side} ({options.GIT_STRATEGIES[name]})")

    def values(self) -> _Decisions:
        pairs = rule_pairs(self.rule)
        return {
            "strategy": self.strategy and options.without_git_names(self.strategy),
            "rules": [(glob, options.without_git_names(name)) for glob, name in pairs],
            "unite_tables": not self.no_table_unions,
            "schema_check": not self.no_schema_check,
        }

    @contextmanager
    def shown_conflicts(
        self,
        out: Output,
        repository: Repository,
        doing: str,
        rest: str = "`--output json` lists the first 10,000",
    ) -> Iterator[None]:
        """Show that a verb runs, and print its conflicts if it fails.

        `rest` describes how to list the others.
        """
        try:
            with out.working(doing):
                yield
        except MergeConflictError as error:
            if self.show_rows:
                error.rows = repository.overlapping_rows(error)
            if error.conflict_rows is not None:
                error.first_conflict_rows = print_conflict_rows(
                    out, error.conflict_rows, self.conflict_rows
                )
            if not out.is_json:
                print_conflicts(out, error.conflicts, error.count, rest, str(error))
                print_rows(out, error.rows)
            raise


@command
def merge(
    invocation: Invocation,
    source: Annotated[str, argument("lakefs://REPO/SOURCE")],
    dest: Annotated[str, argument("lakefs://REPO/DEST")],
    decisions: DecisionArguments,
    message: options.MessageOption = None,
    committer: options.CommitterOption = None,
    meta: options.MetaOption = None,
    path: options.PathsOption = None,
    squash: Annotated[bool, flag("Create a commit with DEST as its only parent.")] = False,
    allow_empty: Annotated[bool, flag("Allow an empty merge commit.")] = False,
    force: Annotated[bool, flag("Merge even if the repository is read-only.")] = False,
    expect_source: Annotated[
        str | None, option("Merge only if SOURCE is at this commit.", metavar="ID")
    ] = None,
    expect_dest: Annotated[
        str | None, option("Merge only if DEST is at this commit.", metavar="ID")
    ] = None,
    dry_run: Annotated[bool, flag("Show changes, conflicts and cost; change nothing.")] = False,
    explain: ExplainOption = False,
    if_needed: options.IfNeededOption = False,
    once: options.OnceOption = None,
) -> None:
    """Merge a ref into a branch, or list the conflicts.

    A merge of selected paths (--path) makes a commit with DEST as its only parent, as --squash
    does. Later merges use the same base.
    """
    invocation.uses_spark, metadata = decisions.merges_rows, labels(meta)
    source_uri, dest_uri = invocation.two_refs(source, dest)
    source, dest = str(source_uri), str(dest_uri)
    repository = invocation.lake.repository(dest_uri.repository, force)
    decisions.note_sides(invocation.out, source, dest)
    if explain:
        plan = repository.plan_merge(source_uri.ref, dest_uri.ref, allow_empty, path or None)
        print_explanation(invocation.out, plan)
        return
    choices: _MergeChoices = {
        **decisions.values(),
        "squash": squash,
        "allow_empty": allow_empty,
        "paths": path or None,
    }
    rest = "`sparklake diff --three-way` lists all of them"
    if dry_run:
        with invocation.out.working("comparing"):
            preview = repository.preview_merge(source_uri.ref, dest_uri.ref, **choices)
        print_preview(invocation.out, dest_uri.ref, preview)
        if preview.conflict_count and not invocation.out.is_json:
            print_conflicts(invocation.out, preview.conflicts, preview.conflict_count, rest)
        note_staged(invocation, source, done="merged")
        return
    with decisions.shown_conflicts(invocation.out, repository, "merging", rest):
        commit = invocation.run(
            repository.merge,
            source_uri.ref,
            dest_uri.ref,
            message=message,
            committer=committer,
            metadata=metadata,
            expect_source=expect_source,
            expect_dest=expect_dest,
            if_needed=if_needed,
            once=invocation.once(once),
            **choices,
        )
    print_commit(invocation.out, dest_uri.ref, commit)
    note_staged(invocation, source, done="merged")


@command
def merge_base(
    invocation: Invocation,
    left: Annotated[str, argument("lakefs://REPO/A")],
    right: Annotated[str, argument("lakefs://REPO/B")],
    every: Annotated[bool, flag("List all best common ancestors.", "--all")] = False,
) -> None:
    """Show the best common ancestor of two refs."""
    one, other = invocation.two_refs(left, right)
    repository = invocation.repository(one.repository)

    def text(base: Commit) -> str:
        first = f"{invocation.out.coloured(short(base.id), 'yellow')} {subject(base)}"
        return "\n    ".join([first, *commit_lines(base)])

    if every:
        commits = repository.merge_bases(one.ref, other.ref)
        texts = {each.id: text(each) for each in commits}
        invocation.out.many(map(commit_document, commits), lambda each: texts[each["id"]])
        return
    base = repository.merge_base(one.ref, other.ref)
    invocation.out.one(commit_document(base), text(base))


RefsArgument = Annotated[list[str], argument("lakefs://REPO/REF...")]
ParentOption = Annotated[
    int | None, option("Compare a merge commit with this parent.", "--parent-number", min=1)
]
EmptyOption = Annotated[bool, flag("Allow empty commits.", "--allow-empty")]


@dataclass(frozen=True, slots=True)
class ReplayArguments:
    parent_number: ParentOption = None
    message: options.MessageOption = None
    committer: options.CommitterOption = None
    meta: options.MetaOption = None
    allow_empty: EmptyOption = False
    if_needed: options.IfNeededOption = False
    once: options.OnceOption = None


@command
def revert(
    invocation: Invocation,
    uri: options.BranchArgument,
    refs: RefsArgument,
    decisions: DecisionArguments,
    replay: ReplayArguments,
) -> None:
    """Undo commits atomically, with one new commit for each."""
    _replay(invocation, uri, refs, decisions, replay, "reverting")


@command
def cherry_pick(
    invocation: Invocation,
    uri: options.BranchArgument,
    refs: RefsArgument,
    decisions: DecisionArguments,
    replay: ReplayArguments,
) -> None:
    """Apply commits atomically, with one new commit for each."""
    _replay(invocation, uri, refs, decisions, replay, "cherry-picking")


def _replay(
    invocation: Invocation,
    uri: str,
    refs: Sequence[str],
    decisions: DecisionArguments,
    replay: ReplayArguments,
    doing: str,
) -> None:
    target = ref_uri(uri)
    sources = [ref_in(target.repository, each) for each in refs]
    invocation.uses_spark = decisions.merges_rows
    repository = invocation.repository(target.repository)
    branch = repository.branch(target.ref)
    picked = "the state before the commit" if doing == "reverting" else "the picked commit"
    decisions.note_sides(invocation.out, picked, uri)
    with decisions.shown_conflicts(invocation.out, repository, doing):
        verb = branch.revert if doing == "reverting" else branch.cherry_pick
        commits = invocation.run(
            verb,
            *(each.ref for each in sources),
            parent_number=replay.parent_number,
            message=replay.message,
            committer=replay.committer,
            metadata=labels(replay.meta),
            allow_empty=replay.allow_empty,
            if_needed=replay.if_needed,
            once=invocation.once(replay.once),
            **decisions.values(),
        )
    print_commits(invocation.out, target.ref, commits)


@command
def rebase(
    invocation: Invocation,
    uri: options.BranchArgument,
    onto: Annotated[str, option("Replay the commits onto this ref.", metavar="lakefs://REPO/REF")],
    decisions: DecisionArguments,
    once: options.OnceOption = None,
) -> None:
    """Replay a branch's commits onto a ref, atomically."""
    invocation.uses_spark = decisions.merges_rows
    target, to = invocation.two_refs(uri, onto)
    repository = invocation.repository(target.repository)
    branch = repository.branch(target.ref)
    decisions.note_sides(invocation.out, str(target), str(to))
    with decisions.shown_conflicts(invocation.out, repository, "rebasing"):
        commits = invocation.run(
            branch.rebase, to.ref, once=invocation.once(once), **decisions.values()
        )
    state = branch.state
    text = f"{target} is at {short(state.commit_id)}, {count_of(len(commits), 'commit')} replayed"
    invocation.out.one({**branch_document(state), "commits": [each.id for each in commits]}, text)
