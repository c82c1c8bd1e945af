"""`sparklake branch`: create, list, rename, set, delete, prune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from sparklake.cli import options
from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import argument, flag, option
from sparklake.cli.parsing import duration
from sparklake.cli.text import date, first_line, short
from sparklake.documents import Document, branch_document, branch_list_document
from sparklake.errors import InvalidInputError, RefNotFoundError
from sparklake.graveler.ports import BranchState
from sparklake.uri import SCHEME, ref_in, ref_uri, repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.branch import Branch
    from sparklake.verbs.base.once import VerbResult

app = Group("branch", "Branches: create, list, rename, set, delete, prune.")

BranchArgument = Annotated[str, argument("lakefs://REPO/NAME")]
ExpiresOption = Annotated[
    str | None, option("Expire the branch after 30m, 12h, 7d or 2w.", metavar="7d")
]


@app.add()
def create(
    invocation: Invocation,
    uri: BranchArgument,
    source: Annotated[
        str | None,
        option(
            "Start the branch at this ref. Default: the default branch.",
            metavar="lakefs://REPO/REF",
        ),
    ] = None,
    hidden: Annotated[bool, flag("Hide the branch in listings.")] = False,
    expires: ExpiresOption = None,
    exist_ok: options.ExistOkOption = False,
    once: options.OnceOption = None,
) -> None:
    """Create a branch at any ref, in constant time."""
    branch = ref_uri(uri)
    start = None if source is None else ref_in(branch.repository, source)
    repository = invocation.repository(branch.repository)
    run = invocation.run_verb(
        repository.create_branch,
        branch.ref,
        start.ref if start else None,
        hidden=hidden,
        expires=None if expires is None else duration(expires),
        exist_ok=exist_ok,
        once=invocation.once(once),
    )
    state = _repeated(run) if run.repeated else run.value.state
    invocation.out.one(branch_document(state), f"{branch} is at {short(state.commit_id)}")


def _repeated(run: VerbResult[Branch]) -> BranchState:
    """Return a branch as an earlier run created it. It may be moved or deleted since then."""
    recorded = BranchState(**(run.stored or {}))
    try:
        state = run.value.state
    except RefNotFoundError:
        return recorded
    # When a branch expires is not recorded: the clock of the store decides.
    return replace(recorded, expires=state.expires, is_expired=state.is_expired, guard=state.guard)


@app.add("list")
def list_branches(
    invocation: Invocation,
    uri: options.RepositoryArgument,
    every: Annotated[bool, flag("Include hidden branches.", "--all")] = False,
) -> None:
    """List the branches of a repository."""
    _table(invocation, invocation.repository(repository_uri(uri)).branch_states(hidden=every))


@app.add()
def rename(
    invocation: Invocation,
    uri: BranchArgument,
    new: Annotated[str, argument("lakefs://REPO/NEW")],
    once: options.OnceOption = None,
) -> None:
    """Rename a branch with staged changes, protection and expiry."""
    branch = ref_uri(uri)
    dest = ref_in(branch.repository, new)
    repository = invocation.repository(branch.repository)
    run = invocation.run_verb(
        repository.rename_branch, branch.ref, dest.ref, once=invocation.once(once)
    )
    state = _repeated(run) if run.repeated else run.value.state
    invocation.out.one(
        branch_document(state), f"{branch} is now {dest}, at {short(state.commit_id)}"
    )


@app.add("set")
def set_branch(
    invocation: Invocation,
    uri: BranchArgument,
    expires: ExpiresOption = None,
    never: Annotated[bool, flag("Never expire the branch.")] = False,
) -> None:
    """Set when a branch expires and `branch prune` may delete it."""
    branch = ref_uri(uri)
    lifetime = None if expires is None else duration(expires)
    if never is (lifetime is not None):
        raise InvalidInputError("choose either --expires, such as 7d, or --never")
    opened = invocation.repository(branch.repository).branch(branch.ref)
    state = opened.set_expiry(lifetime)
    text = "never expires" if state.expires is None else f"expires at {date(state.expires)}"
    invocation.out.one(branch_document(state), f"{branch} {text}")


@app.add()
def prune(
    invocation: Invocation,
    uri: options.RepositoryArgument,
    dry_run: Annotated[bool, flag("List the branches; delete nothing.")] = False,
    yes: options.YesOption = False,
) -> None:
    """Delete expired branches and their staged changes.

    The default branch and protected ones stay.
    """
    repository = invocation.repository(repository_uri(uri))
    due = [] if dry_run or yes else repository.prune_branches(dry_run=True)
    if due:
        staged = sum(repository.branch(each.name).count_staged() for each in due if each.layers)
        invocation.out.confirm(
            f"This deletes {count_of(len(due), 'expired branch', 'expired branches')}, with "
            f"{count_of(staged, 'staged change')}, which cannot be restored. --dry-run lists them.",
            "Delete them?",
        )
    pruned = repository.prune_branches(dry_run)
    _table(invocation, pruned)
    done = "would be deleted" if dry_run else "deleted"
    invocation.out.note(f"{count_of(len(pruned), 'branch', 'branches')} {done}")


@app.add()
def delete(
    invocation: Invocation,
    uri: BranchArgument,
    yes: options.YesOption = False,
    missing_ok: options.MissingOkOption = False,
    discard_staged: Annotated[bool, flag("Also delete the staged changes.")] = False,
) -> None:
    """Delete a branch; its commits stay."""
    branch = ref_uri(uri)
    repository = invocation.repository(branch.repository)
    try:
        opened = repository.branch(branch.ref)
        state = opened.state
    except RefNotFoundError:
        if not missing_ok:
            raise
        document = {"name": branch.ref, "deleted": False, "commit_id": None}
        invocation.out.one(document, f"{branch} does not exist")
        return
    head = f"{SCHEME}{branch.repository}/{short(state.commit_id)}"
    again = f"`sparklake branch create {branch} --source {head}`"
    # Without --discard-staged, the deletion itself refuses to lose staged changes.
    if not yes and (discard_staged or not state.layers):
        count = opened.count_staged()
        changes = count_of(count, "staged change")
        staged = f" and its {changes}, which cannot be restored" if count else ""
        invocation.out.confirm(
            f"This deletes {branch}{staged}. Its commits stay, and {again} creates it again.",
            "Delete it?",
        )
    repository.delete_branch(branch.ref, missing_ok, discard_staged)
    invocation.out.one(
        {"name": branch.ref, "deleted": True, "commit_id": state.commit_id},
        f"{branch} is deleted; {again} creates it again",
    )


def _table(invocation: Invocation, states: Sequence[BranchState]) -> None:
    invocation.out.table(
        [branch_list_document(state) for state in states],
        {
            "branch": lambda each: each["name"],
            "commit": lambda each: short(each["commit_id"]),
            "date": lambda each: date(each["head"]["creation_date"]) if each["head"] else "",
            "who": lambda each: each["head"]["committer"] if each["head"] else "",
            "message": lambda each: first_line(each["head"]["message"]) if each["head"] else "",
            "": _remarks,
        },
    )


def _remarks(branch: Document) -> str:
    remarks = ["uncommitted changes"] if branch["dirty"] else []
    if branch["hidden"]:
        remarks.append("hidden")
    if branch["protected"]:
        remarks.append("protected")
    if branch["expires"] is not None:
        verb = "expired" if branch["expired"] else "expires"
        remarks.append(f"{verb} {date(branch['expires'])}")
    return ", ".join(remarks)
