"""The commits of a branch, made once more on another commit: rebase."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.arguments import rule_pairs
from sparklake.cli.merging import shown_conflicts
from sparklake.cli.parameters import BranchArgument, NoDeltaOption, RuleOption, StrategyOption
from sparklake.cli.session import Session, command
from sparklake.cli.text import number, short
from sparklake.documents import branch_document
from sparklake.uri import ref_uri, same_repository


@command
def rebase(
    session: Session,
    uri: BranchArgument,
    onto: Annotated[
        str,
        typer.Option(metavar="lakefs://REPO/REF", help="Where it is to stand.", show_default=False),
    ],
    strategy: StrategyOption = None,
    rule: RuleOption = None,
    no_delta: NoDeltaOption = False,
) -> None:
    """Make the commits that a branch has of its own once more on a ref; all of them, or none."""
    target, to = ref_uri(uri), ref_uri(onto)
    branch = session.repository(same_repository(target, to)).branch(target.ref)
    rest = "`--output json` has the first 10,000"
    with shown_conflicts(session.out, rest), session.out.working("rebasing"):
        made = branch.rebase(to.ref, strategy, rule_pairs(rule), delta=not no_delta)
    state = branch.state
    text = f"{target} is at {short(state.commit_id)}, {number(len(made), 'commit')} made once more"
    session.out.one({**branch_document(state), "made": [each.id for each in made]}, text)
