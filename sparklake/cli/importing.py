"""`sparklake import`."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.arguments import labels
from sparklake.cli.commits import print_commit
from sparklake.cli.parameters import CommitterOption, MessageOption, MetaOption
from sparklake.cli.session import Session, command
from sparklake.cli.text import shown
from sparklake.uri import prefix_uri


@command
def import_objects(
    session: Session,
    uri: Annotated[
        str, typer.Argument(metavar="lakefs://REPO/BRANCH/[PREFIX]", show_default=False)
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="URI_OR_DIR",
            help="A directory, or s3://bucket/prefix.",
            show_default=False,
        ),
    ],
    message: MessageOption = None,
    committer: CommitterOption = None,
    meta: MetaOption = None,
) -> None:
    """Commit the objects of a directory or bucket prefix where they lie, copying nothing.

    They take the place of what the branch has under PREFIX.
    """
    target, metadata = prefix_uri(uri), labels(meta)
    branch = session.repository(target.repository).branch(target.ref)
    with session.out.working(f"importing {shown(source)}"):
        made = branch.import_objects(source, target.key, message, committer, metadata)
    print_commit(session.out, target.ref, made)
