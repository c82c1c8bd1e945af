"""`sparklake op`: log, undo. Also `sparklake hard-reset`."""

from __future__ import annotations

from typing import Annotated

from sparklake.cli.invocation import Group, Invocation, command
from sparklake.cli.options import BranchArgument, OnceOption, YesOption, argument, flag, option
from sparklake.cli.text import date, one_line, short
from sparklake.documents import branch_document, operation_document
from sparklake.uri import ref_in, ref_uri, refs_uri
from sparklake.visible import count_of

app = Group("op", "Moves of branches and tags: log, undo.")


_NOWHERE = "-"


@app.add()
def log(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO[/REF]")],
    amount: Annotated[int, option("Show at most this many moves.", "--amount", "-n", min=1)] = 100,
) -> None:
    """Show all moves of branches and tags, newest first."""
    repository, ref = refs_uri(uri)
    operations = invocation.repository(repository).operations(amount, ref)
    invocation.out.table(
        [operation_document(each) for each in operations],
        {
            "date": lambda each: date(each["date"]),
            "who": lambda each: one_line(each["who"]),
            "verb": lambda each: each["verb"],
            "ref": lambda each: each["ref"],
            "from": lambda each: short(each["from_commit"] or _NOWHERE),
            "to": lambda each: short(each["to_commit"] or _NOWHERE),
        },
    )


@app.add()
def undo(invocation: Invocation, uri: BranchArgument, once: OnceOption = None) -> None:
    """Undo the latest move of a branch; a second undo redoes it."""
    target = ref_uri(uri)
    repository = invocation.repository(target.repository)
    branch = repository.branch(target.ref)
    commit = invocation.run(branch.undo, invocation.once(once))
    # The latest move is this undo, unless other writers have moved the branch since then.
    latest, *earlier = repository.operations(2, target.ref)
    is_latest = latest.verb == "undo" and latest.to_commit == commit.id
    move = earlier[0] if is_latest and earlier else None
    document = {
        **branch_document(branch.state),
        "commit_id": commit.id,
        "undone": None if move is None else operation_document(move),
    }
    text = f"{target} is back at {short(commit.id)}"
    if move is not None:
        moved_to = short(move.to_commit or _NOWHERE)
        text += f": undid the {move.verb} to {moved_to} by {one_line(move.who)}"
    invocation.out.one(document, text)


@command
def hard_reset(
    invocation: Invocation,
    uri: BranchArgument,
    ref: Annotated[str, argument("lakefs://REPO/REF")],
    expect: Annotated[
        str | None, option("Move only if the branch is at this ref.", metavar="lakefs://REPO/REF")
    ] = None,
    force: Annotated[bool, flag("Drop staged changes instead of failing.")] = False,
    yes: YesOption = False,
    once: OnceOption = None,
) -> None:
    """Move a branch to any ref, without a commit."""
    target = ref_uri(uri)
    to = ref_in(target.repository, ref)
    repository = invocation.repository(target.repository)
    expected = None if expect is None else ref_in(target.repository, expect)
    branch = repository.branch(target.ref)
    back = f"`sparklake op undo {target}` moves it back"
    staged = branch.count_staged() if force and not yes else 0
    if staged:
        invocation.out.confirm(
            f"This moves {target} to {to}, and drops its {count_of(staged, 'staged change')}, "
            "which cannot be restored.",
            "Move it?",
        )
    commit = invocation.run(
        branch.hard_reset,
        to.ref,
        expected.ref if expected else None,
        force
        and (yes or staged > 0),  # Never drop concurrently staged changes without confirmation.
        invocation.once(once),
    )
    text = f"{target} is at {short(commit.id)}; {back}"
    invocation.out.one({**branch_document(branch.state), "commit_id": commit.id}, text)
