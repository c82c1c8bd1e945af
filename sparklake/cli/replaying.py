"""What commits changed, undone or made again: revert, cherry-pick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.arguments import labels, rule_pairs
from sparklake.cli.commits import print_commits
from sparklake.cli.merging import shown_conflicts
from sparklake.cli.parameters import (
    BranchArgument,
    CommitterOption,
    MessageOption,
    MetaOption,
    NoDeltaOption,
    RuleOption,
    StrategyOption,
)
from sparklake.cli.session import Session, command
from sparklake.uri import ref_uri, same_repository

if TYPE_CHECKING:
    from sparklake.branch import Branch
    from sparklake.graveler.commits import Commit

RefsArgument = Annotated[
    list[str], typer.Argument(metavar="lakefs://REPO/REF...", show_default=False)
]
ParentOption = Annotated[
    int | None,
    typer.Option(
        "--parent-number",
        min=1,
        help="Of a merge, the parent from which its changes are counted.",
        show_default=False,
    ),
]
EmptyOption = Annotated[
    bool, typer.Option("--allow-empty", help="Even where that changes nothing.")
]


@command
def revert(
    session: Session,
    uri: BranchArgument,
    refs: RefsArgument,
    parent_number: ParentOption = None,
    strategy: StrategyOption = None,
    rule: RuleOption = None,
    no_delta: NoDeltaOption = False,
    message: MessageOption = None,
    committer: CommitterOption = None,
    meta: MetaOption = None,
    allow_empty: EmptyOption = False,
) -> None:
    """Undo what commits changed, each by a commit of its own; all of them, or none."""

    def undo(branch: Branch, names: Sequence[str]) -> list[Commit]:
        return branch.revert(
            *names,
            parent_number=parent_number,
            strategy=strategy,
            rules=rule_pairs(rule),
            delta=not no_delta,
            message=message,
            committer=committer,
            metadata=labels(meta),
            allow_empty=allow_empty,
        )

    _replay(session, uri, refs, undo, "reverting")


@command
def cherry_pick(
    session: Session,
    uri: BranchArgument,
    refs: RefsArgument,
    parent_number: ParentOption = None,
    strategy: StrategyOption = None,
    rule: RuleOption = None,
    no_delta: NoDeltaOption = False,
    message: MessageOption = None,
    committer: CommitterOption = None,
    meta: MetaOption = None,
    allow_empty: EmptyOption = False,
) -> None:
    """Make the changes of commits on a branch, each as a commit of its own; all, or none."""

    def pick(branch: Branch, names: Sequence[str]) -> list[Commit]:
        return branch.cherry_pick(
            *names,
            parent_number=parent_number,
            strategy=strategy,
            rules=rule_pairs(rule),
            delta=not no_delta,
            message=message,
            committer=committer,
            metadata=labels(meta),
            allow_empty=allow_empty,
        )

    _replay(session, uri, refs, pick, "picking")


def _replay(
    session: Session,
    uri: str,
    refs: Sequence[str],
    verb: Callable[[Branch, Sequence[str]], list[Commit]],
    doing: str,
) -> None:
    target, sources = ref_uri(uri), [ref_uri(each) for each in refs]
    for each in sources:
        same_repository(target, each)
    branch = session.repository(target.repository).branch(target.ref)
    rest = "`--output json` has the first 10,000"
    with shown_conflicts(session.out, rest), session.out.working(doing):
        made = verb(branch, [each.ref for each in sources])
    print_commits(session.out, target.ref, made)
