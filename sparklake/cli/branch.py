"""`sparklake branch`: create, list, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.options import global_options
from sparklake.cli.session import Session, command
from sparklake.cli.text import short
from sparklake.report import branch_document
from sparklake.uri import ref_uri, repository_uri, same_repository

app = typer.Typer(name="branch", help="Branches: create, list, delete.", no_args_is_help=True)
app.callback()(global_options)

BranchArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO/NAME", show_default=False)]


@app.command()
@command
def create(
    session: Session,
    uri: BranchArgument,
    source: Annotated[
        str,
        typer.Option(metavar="lakefs://REPO/REF", help="Where it begins.", show_default=False),
    ],
) -> None:
    """Create a branch at any ref, in constant time."""
    branch, start = ref_uri(uri), ref_uri(source)
    repository = session.repository(same_repository(branch, start))
    made = repository.create_branch(branch.ref, start.ref)
    state = made.state
    session.out.one(branch_document(state), f"{branch} is at {short(state.commit_id)}")


@app.command("list")
@command
def list_branches(
    session: Session,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)],
) -> None:
    """List the branches of a repository."""
    states = session.repository(repository_uri(uri)).branch_states()
    session.out.table(
        [branch_document(state) for state in states],
        {
            "branch": lambda each: each["name"],
            "commit": lambda each: short(each["commit_id"]),
            "": lambda each: "uncommitted changes" if each["dirty"] else "",
        },
    )


@app.command()
@command
def delete(session: Session, uri: BranchArgument) -> None:
    """Delete a branch and what is staged on it; its commits stay."""
    branch = ref_uri(uri)
    session.repository(branch.repository).delete_branch(branch.ref)
    session.out.one({"name": branch.ref, "deleted": True}, f"{branch} is deleted")
