"""Objects under other paths: mv, cp."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.session import Session, command
from sparklake.cli.text import number, shown
from sparklake.uri import same_branch, same_repository, transfer_uris

RecursiveOption = Annotated[
    bool, typer.Option("--recursive", "-r", help="With everything below KEY/.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite what is there.")]
DestArgument = Annotated[
    str, typer.Argument(metavar="lakefs://REPO/BRANCH/NEW_KEY", show_default=False)
]


@command
def mv(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="lakefs://REPO/BRANCH/KEY", show_default=False)],
    dest: DestArgument,
    recursive: RecursiveOption = False,
    force: ForceOption = False,
) -> None:
    """Stage an object, or a folder KEY/, under another path; no byte of it is copied."""
    old, new = transfer_uris(source, dest)
    branch = session.repository(old.repository).branch(same_branch(old, new))
    with session.out.working(f"moving {shown(str(old))}"):
        moved = branch.move(old.key, new.key, recursive, force)
    text = f"staged the move of {number(moved, 'object')} to {shown(str(new))}"
    session.out.one({"source": old.key, "path": new.key, "moved": moved}, text)


@command
def cp(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="lakefs://REPO/REF/KEY", show_default=False)],
    dest: DestArgument,
    recursive: RecursiveOption = False,
    force: ForceOption = False,
) -> None:
    """Stage an object of any ref, or a folder KEY/, under a path; no byte of it is copied."""
    old, new = transfer_uris(source, dest)
    branch = session.repository(same_repository(old, new)).branch(new.ref)
    with session.out.working(f"copying {shown(str(old))}"):
        copied = branch.copy(old.key, new.key, old.ref, recursive, force)
    text = f"staged {number(copied, 'object')} at {shown(str(new))}"
    session.out.one({"source": old.key, "path": new.key, "copied": copied}, text)
