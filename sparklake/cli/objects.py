"""`sparklake put`, `stage`, `rm`, `ls`, `stat`, `cat`, `mv`, `cp` and `restore`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from sparklake.cli.options import BranchArgument, MetaOption, RequiredPathsOption
from sparklake.cli.parsing import file_at, labels
from sparklake.cli.plans import ExplainOption, print_explanation
from sparklake.cli.session import Session, command
from sparklake.cli.spark_rows import RowsFormatOption, source_rows
from sparklake.cli.text import date, number, one_line, size
from sparklake.config import disk_root
from sparklake.documents import (
    Document,
    branch_document,
    folder_document,
    object_document,
    restored_document,
    upload_document,
)
from sparklake.graveler.planning.path_filter import first_paths
from sparklake.uri import (
    folder_uri,
    object_uri,
    prefix_uri,
    ref_uri,
    same_branch,
    same_repository,
    transfer_uris,
)

if TYPE_CHECKING:
    from sparklake.verbs.objects.upload import FolderUpload

_SHOWN = 10
"""How many skipped paths are named."""

ObjectArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO/REF/KEY", show_default=False)]
StagedArgument = Annotated[
    str, typer.Argument(metavar="lakefs://REPO/BRANCH/KEY", show_default=False)
]


@command
def put(
    session: Session,
    file: Annotated[
        str, typer.Argument(help="A file, or - for stdin; with -r a folder.", show_default=False)
    ],
    uri: StagedArgument,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="All files below a folder, under KEY/.")
    ] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="With -r: follow symbolic links.")
    ] = False,
    content_type: Annotated[
        str | None, typer.Option(help="Its media type.", show_default=False)
    ] = None,
    meta: MetaOption = None,
) -> None:
    """Copy a file, or with -r a folder, into the repository and stage it."""
    target, metadata = (folder_uri if recursive else object_uri)(uri), labels(meta)
    branch = session.repository(target.repository).branch(target.ref)
    if recursive:
        with session.out.working(f"copying {one_line(file)}"):
            made = branch.put_folder(target.key, file, metadata, content_type or "", follow_links)
        text = f"staged {number(made.count, 'object')} below {one_line(str(target))}"
        session.out.one(upload_document(target.key, made), "\n".join([text, *_skipped(made)]))
        return
    with file_at(file, disk_root()) as path, session.out.working(f"copying {one_line(file)}"):
        staged = branch.put_file(target.key, path, metadata, content_type or "")
    text = f"staged {one_line(str(target))} ({size(staged.size)})"
    session.out.one(object_document(staged), text)


def _skipped(made: FolderUpload) -> Iterator[str]:
    """Yield lines about what was skipped, the first ones by name."""
    if made.skipped:
        yield f"skipped {len(made.skipped):,} that are no files (--follow-links follows links):"
    for each in made.skipped[:_SHOWN]:
        yield f"  {each.reason.value.replace('_', ' '):<13}  {one_line(each.path)}"
    if len(made.skipped) > _SHOWN:
        yield f"  ... and {len(made.skipped) - _SHOWN:,} more; --output json lists all"


@command
def stage(
    session: Session,
    uri: BranchArgument,
    rows: Annotated[
        str, typer.Argument(help="Rows that Spark can read, one an object.", show_default=False)
    ],
    rows_format: RowsFormatOption = "parquet",
) -> None:
    """Stage many objects at once from rows: path, size, address and so on."""
    target = ref_uri(uri)
    session.uses_spark = True
    branch = session.repository(target.repository).branch(target.ref)
    with session.out.working(f"staging {one_line(rows)}"):
        branch.stage(source_rows(rows, rows_format))
    text = f"staged the rows of {one_line(rows)} on {one_line(str(target))}"
    session.out.one(branch_document(branch.state), text)


@command
def rm(
    session: Session,
    uri: StagedArgument,
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="With everything below KEY/.")
    ] = False,
) -> None:
    """Stage the removal of an object, or with -r of a folder."""
    target = (folder_uri if recursive else object_uri)(uri)
    branch = session.repository(target.repository).branch(target.ref)
    with session.out.working(f"removing {one_line(str(target))}"):
        removed = branch.remove(target.key, recursive)
    session.out.one(
        {"path": target.key, "removed": removed},
        f"staged the removal of {number(removed, 'object')} at {one_line(str(target))}",
    )


@command
def ls(
    session: Session,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO/REF/[PREFIX]", show_default=False)],
    recursive: Annotated[bool, typer.Option("--recursive", "-r", help="All levels.")] = False,
    explain: ExplainOption = False,
) -> None:
    """List objects, one level or all; staged changes of a branch count.

    `branch@` leaves them out, and `branch$` has what is staged alone.
    """
    place = prefix_uri(uri)
    repository = session.repository(place.repository)
    if explain:
        print_explanation(session.out, repository.objects(place.ref, place.key).explain())
        return
    documents: Iterator[Document]
    if recursive:
        documents = map(object_document, repository.objects(place.ref, place.key))
    else:
        documents = map(folder_document, repository.folder(place.ref, place.key))

    def line(each: Document) -> str:
        path = one_line(each["path"])
        if each["type"] == "prefix":
            return f"{'':31}  {session.out.coloured(path, 'blue')}"
        return f"{size(each['size']):>9}  {date(each['mtime'])}  {path}"

    session.out.many(documents, line)


@command
def stat(session: Session, uri: ObjectArgument) -> None:
    """Show what is known of one object."""
    target = object_uri(uri)
    found = session.repository(target.repository).stat(target.ref, target.key)
    lines = {
        "path": one_line(found.path),
        "size": f"{found.size:,} bytes",
        "checksum": found.checksum,
        "modified": date(object_document(found)["mtime"]),
        "address": one_line(found.address),
        "content type": one_line(found.content_type),
        **{f"meta {one_line(name)}": one_line(value) for name, value in found.metadata.items()},
    }
    text = "\n".join(f"{name:<14}{value}" for name, value in lines.items())
    session.out.one(object_document(found), text)


@command
def cat(session: Session, uri: ObjectArgument) -> None:
    """Write the content of one object to stdout, byte for byte."""
    target = object_uri(uri)
    body = session.repository(target.repository).read_bytes(target.ref, target.key)
    session.out.write_bytes(body)


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
    with session.out.working(f"moving {one_line(str(old))}"):
        moved = branch.move(old.key, new.key, recursive, force)
    text = f"staged the move of {number(moved, 'object')} to {one_line(str(new))}"
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
    with session.out.working(f"copying {one_line(str(old))}"):
        copied = branch.copy(old.key, new.key, old.ref, recursive, force)
    text = f"staged {number(copied, 'object')} at {one_line(str(new))}"
    session.out.one({"source": old.key, "path": new.key, "copied": copied}, text)


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
        f"staged {one_line(first_paths(path))} as at {one_line(wanted.ref)}: "
        f"{made.added:,} added, {made.removed:,} removed, {made.changed:,} changed"
    )
    session.out.one(restored_document(made), text)
