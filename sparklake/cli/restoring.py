"""Paths of a branch as they are elsewhere: restore."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.parameters import BranchArgument, RequiredPathsOption
from sparklake.cli.session import Session, command
from sparklake.cli.text import shown
from sparklake.documents import restored_document
from sparklake.graveler.planning.path_filter import named
from sparklake.uri import ref_uri, same_repository


@command
def restore(
    session: Session,
    uri: BranchArgument,
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="lakefs://REPO/REF",
            help="Where they are as wanted.",
            show_default=False,
        ),
    ],
    path: RequiredPathsOption,
) -> None:
    """Stage what makes chosen paths of a branch what they are at any ref, removals included.

    What was staged of these paths gives way to it.
    """
    target, wanted = ref_uri(uri), ref_uri(source)
    branch = session.repository(same_repository(target, wanted)).branch(target.ref)
    with session.out.working("restoring"):
        made = branch.restore(wanted.ref, path)
    text = (
        f"staged {shown(named(path))} as at {shown(wanted.ref)}: "
        f"{made.added:,} added, {made.removed:,} removed, {made.changed:,} changed"
    )
    session.out.one(restored_document(made), text)
