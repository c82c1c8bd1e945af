"""`sparklake put`, `stage`, `rm`, `ls`, `stat`, `cat`, `url`, `mv`, `cp` and `restore`."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sparklake.cli import options
from sparklake.cli.absent_paths import some_of
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, flag, option
from sparklake.cli.parsing import STDIN, duration, file_at, labels
from sparklake.cli.plans import ExplainOption, print_explanation
from sparklake.cli.spark_rows import RowsFormatOption, source_rows
from sparklake.cli.text import change_counts, date, field_lines, one_line, size
from sparklake.documents import (
    Document,
    branch_document,
    folder_document,
    object_document,
    restored_document,
    upload_document,
    url_document,
)
from sparklake.errors import InvalidInputError, ObjectNotFoundError
from sparklake.uri import (
    KeyUri,
    folder_uri,
    object_uri,
    prefix_uri,
    ref_in,
    ref_uri,
    same_branch,
    same_repository,
)
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.repository import Repository
    from sparklake.verbs.objects.upload import FolderUpload

_SHOWN = 10
"""The number of skipped paths that are named."""

ObjectArgument = Annotated[str, argument("lakefs://REPO/REF/KEY")]
StagedArgument = Annotated[str, argument("lakefs://REPO/BRANCH/KEY")]


@command
def put(
    invocation: Invocation,
    file: Annotated[str, argument(help="A file, or - for stdin, or with -r a folder.")],
    uri: StagedArgument,
    recursive: Annotated[
        bool, flag("Put all files of a folder below KEY/.", "--recursive", "-r")
    ] = False,
    follow_links: Annotated[bool, flag("Follow symbolic links (with -r).")] = False,
    content_type: Annotated[str | None, option("Set the content type, such as text/csv.")] = None,
    meta: options.MetaOption = None,
    once: options.OnceOption = None,
) -> None:
    """Copy a file or folder into a branch (staged, not committed)."""
    if not recursive and file != STDIN and Path(file).is_dir():
        typed = _typed("put -r", file, uri)
        raise InvalidInputError(f"{file} is not a file but a folder: write `{typed}`")
    target, metadata = folder_uri(uri), labels(meta)
    if file == STDIN and (not target.key or target.key.endswith("/")):
        raise InvalidInputError(f"stdin has no name: add one, as in {target}NAME")
    run = invocation.once(once)
    branch = invocation.repository(target.repository).branch(target.ref)
    if recursive:
        with invocation.out.working(f"copying {one_line(file)}"):
            upload = invocation.run(
                branch.put_folder,
                target.key,
                file,
                metadata=metadata,
                content_type=content_type or "",
                follow_links=follow_links,
                once=run,
            )
        text = f"staged {count_of(upload.count, 'object')} below {one_line(str(target))}"
        invocation.out.one(
            upload_document(target.key, upload), "\n".join([text, *_skipped(upload)])
        )
        return
    with file_at(file) as path, invocation.out.working(f"copying {one_line(file)}"):
        key = target.key or Path(file).name
        staged = invocation.run(branch.put_file, key, path, metadata, content_type or "", run)
    target = replace(target, key=staged.path)
    text = f"staged {one_line(str(target))} ({size(staged.size)})"
    invocation.out.one(object_document(staged), text)


def _typed(command: str, *words: str) -> str:
    return f"sparklake {command} {shlex.join(words)}"


@contextmanager
def _folder_described(
    repository: Repository, target: KeyUri, command: str, *words: str
) -> Iterator[None]:
    """Suggest a command for a folder of the missing object's name."""
    try:
        yield
    except ObjectNotFoundError as error:
        folder = replace(target, key=f"{target.key.rstrip('/')}/")
        if next(repository.folder(folder.ref, folder.key), None) is None:
            raise
        raise ObjectNotFoundError(
            f"{target.key!r} is a folder of {target.ref!r}, not an object: "
            f"write `{_typed(command, str(folder), *words)}`"
        ) from error


def _skipped(upload: FolderUpload) -> Iterator[str]:
    if upload.skipped:
        count = f"{len(upload.skipped):,}"
        yield f"skipped {count} that are not regular files (--follow-links follows links):"
    for each in upload.skipped[:_SHOWN]:
        yield f"  {each.reason.value.replace('_', ' '):<13}  {one_line(each.path)}"
    if len(upload.skipped) > _SHOWN:
        yield f"  ... and {len(upload.skipped) - _SHOWN:,} more; --output json lists all of them"


@command
def stage(
    invocation: Invocation,
    uri: options.BranchArgument,
    rows: Annotated[str, argument(help="URI of rows for Spark to read, one per object.")],
    rows_format: RowsFormatOption = "parquet",
    once: options.OnceOption = None,
) -> None:
    """Stage existing objects from a table of addresses.

    Columns: path, size, address, and optionally checksum, mtime, metadata, content_type, deleted.
    """
    target = ref_uri(uri)
    invocation.uses_spark = True
    branch = invocation.repository(target.repository).branch(target.ref)
    with invocation.out.working(f"staging {one_line(rows)}"):
        invocation.run(
            branch.stage, source_rows(rows, rows_format), invocation.once(once, rows, rows_format)
        )
    text = f"staged the rows of {one_line(rows)} on {one_line(str(target))}"
    invocation.out.one(branch_document(branch.state), text)


@command
def rm(
    invocation: Invocation,
    uri: StagedArgument,
    recursive: Annotated[bool, flag("Include everything below KEY/.", "--recursive", "-r")] = False,
    once: options.OnceOption = None,
) -> None:
    """Remove an object or a folder (staged, not committed)."""
    target = (folder_uri if recursive else object_uri)(uri)
    repository = invocation.repository(target.repository)
    branch = repository.branch(target.ref)
    working = invocation.out.working(f"removing {one_line(str(target))}")
    with _folder_described(repository, target, "rm -r"), working:
        removed = invocation.run(branch.remove, target.key, recursive, invocation.once(once))
    invocation.out.one(
        {"path": target.key, "removed": removed},
        f"staged the removal of {count_of(removed, 'object')} at {one_line(str(target))}",
    )


@command
def ls(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO/REF/[PREFIX]")],
    recursive: Annotated[bool, flag("List all levels.", "--recursive", "-r")] = False,
    explain: ExplainOption = False,
) -> None:
    """List the objects of a ref, one level or all.

    A branch includes its staged changes. `branch@` leaves them out, and `branch$` lists only them.
    """
    place = prefix_uri(uri)
    invocation.page()
    repository = invocation.repository(place.repository)
    if explain:
        print_explanation(invocation.out, repository.objects(place.ref, place.key).explain())
        return
    documents: Iterator[Document]
    if recursive:
        documents = map(
            object_document,
            some_of(repository.objects(place.ref, place.key), repository, place.ref, place.key),
        )
    else:
        documents = map(
            folder_document,
            some_of(repository.folder(place.ref, place.key), repository, place.ref, place.key),
        )

    def line(each: Document) -> str:
        path = one_line(each["path"])
        if each["type"] == "prefix":
            return f"{'':31}  {invocation.out.coloured(path, 'blue')}"
        return f"{size(each['size']):>9}  {date(each['mtime'])}  {path}"

    invocation.out.many(documents, line)


@command
def stat(invocation: Invocation, uri: ObjectArgument) -> None:
    """Show the size, checksum, address and metadata of an object."""
    target = object_uri(uri)
    repository = invocation.repository(target.repository)
    with _folder_described(repository, target, "ls"):
        info = repository.stat(target.ref, target.key)
    lines = {
        "path": one_line(info.path),
        "size": count_of(info.size, "byte"),
        "checksum": info.checksum,
        "modified": date(object_document(info)["mtime"]),
        "address": one_line(info.address),
        "content type": one_line(info.content_type),
        **{f"meta {one_line(name)}": one_line(value) for name, value in info.metadata.items()},
    }
    invocation.out.one(object_document(info), field_lines(lines))


@command
def cat(invocation: Invocation, uri: ObjectArgument) -> None:
    """Write the bytes of an object to stdout."""
    target = object_uri(uri)
    repository = invocation.repository(target.repository)
    with _folder_described(repository, target, "ls"):
        body = repository.read_bytes(target.ref, target.key)
    invocation.out.write_bytes(body)


@command
def url(
    invocation: Invocation,
    uri: ObjectArgument,
    expires: Annotated[str, option("Let the URL expire, at most 7d.", metavar="DURATION")] = "1h",
) -> None:
    """Print a presigned URL, with which anyone may read an object."""
    target, lifetime = object_uri(uri), duration(expires)
    repository = invocation.repository(target.repository)
    with _folder_described(repository, target, "ls"):
        signed = repository.url(target.ref, target.key, lifetime)
    invocation.out.one(url_document(signed, lifetime), signed)


RecursiveOption = Annotated[bool, flag("Include everything below KEY/.", "--recursive", "-r")]
ForceOption = Annotated[bool, flag("Overwrite existing objects.", "--force")]
DestArgument = Annotated[str, argument("lakefs://REPO/BRANCH/NEW_KEY")]


@command
def mv(
    invocation: Invocation,
    source: Annotated[str, argument("lakefs://REPO/BRANCH/KEY")],
    dest: DestArgument,
    recursive: RecursiveOption = False,
    force: ForceOption = False,
    once: options.OnceOption = None,
) -> None:
    """Move an object or a folder KEY/ (staged, copies no bytes)."""
    old, new = folder_uri(source), folder_uri(dest)
    repository = invocation.repository(old.repository)
    branch = repository.branch(same_branch(old, new))
    working = invocation.out.working(f"moving {one_line(str(old))}")
    with _folder_described(repository, old, "mv", dest), working:
        moved = invocation.run(
            branch.move, old.key, new.key, recursive, force, invocation.once(once)
        )
    text = f"staged the move of {count_of(moved, 'object')} to {one_line(str(new))}"
    invocation.out.one({"source": old.key, "path": new.key, "moved": moved}, text)


@command
def cp(
    invocation: Invocation,
    source: Annotated[str, argument("lakefs://REPO/REF/KEY")],
    dest: DestArgument,
    recursive: RecursiveOption = False,
    force: ForceOption = False,
    once: options.OnceOption = None,
) -> None:
    """Copy an object or a folder KEY/ (staged, copies no bytes).

    The source can be at any ref.
    """
    old, new = folder_uri(source), folder_uri(dest)
    repository = invocation.repository(same_repository(old, new))
    branch = repository.branch(new.ref)
    working = invocation.out.working(f"copying {one_line(str(old))}")
    with _folder_described(repository, old, "cp", dest), working:
        run = invocation.once(once)
        copied = invocation.run(
            branch.copy, old.key, new.key, ref=old.ref, recursive=recursive, force=force, once=run
        )
    text = f"staged {count_of(copied, 'object')} at {one_line(str(new))}"
    invocation.out.one({"source": old.key, "path": new.key, "copied": copied}, text)


@command
def restore(
    invocation: Invocation,
    uri: options.BranchArgument,
    source: Annotated[
        str, option("Restore the paths from this ref.", "--from", metavar="lakefs://REPO/REF")
    ],
    path: options.RequiredPathsOption,
    once: options.OnceOption = None,
) -> None:
    """Restore paths from any ref (staged, not committed).

    This includes removals, and replaces the staged changes of these paths.
    """
    # Lazy import: --help does not need it.
    from sparklake.graveler.planning.path_filter import first_paths

    target = ref_uri(uri)
    origin = ref_in(target.repository, source)
    branch = invocation.repository(target.repository).branch(target.ref)
    with invocation.out.working("restoring"):
        result = invocation.run(branch.restore, origin.ref, path, invocation.once(once))
    document = restored_document(result)
    origin_text = f"{one_line(first_paths(path))} from {one_line(origin.ref)}"
    invocation.out.one(document, f"staged {origin_text}: {change_counts(document['staged'])}")
