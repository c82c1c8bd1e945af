"""`sparklake repo`: create, list, show, set, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import MetaOption, RepositoryArgument, YesOption, argument, flag, option
from sparklake.cli.parsing import labels
from sparklake.cli.text import date, one_line
from sparklake.documents import repository_document
from sparklake.errors import InvalidInputError
from sparklake.graveler.defaults import DEFAULT_RANGE_RECORDS
from sparklake.uri import SCHEME, repository_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from sparklake.graveler.ports import RepositoryInfo

app = Group("repo", "Repositories: create, list, show, set, delete.")

ReadOnlyOption = Annotated[bool, flag("Reject all changes.", "--read-only")]


@app.add()
def create(
    invocation: Invocation,
    uri: RepositoryArgument,
    storage_namespace: Annotated[
        str, argument(help="An unused directory, or a prefix such as s3://bucket/lake.")
    ],
    default_branch: Annotated[str, option("Name of the default branch.")] = "main",
    range_records: Annotated[int | None, option("Average number of objects per range.")] = None,
    read_only: ReadOnlyOption = False,
    meta: MetaOption = None,
) -> None:
    """Create a repository in an unused storage namespace."""
    name, metadata = repository_uri(uri), labels(meta)
    records = DEFAULT_RANGE_RECORDS if range_records is None else range_records
    repository = invocation.lake.create_repository(
        name, storage_namespace, default_branch, records, read_only, metadata
    )
    info = repository.info
    invocation.out.one(
        repository_document(info),
        f"{SCHEME}{info.name} is in {one_line(info.storage_namespace)}, "
        f"with the branch {info.default_branch}",
    )
    if not invocation.settings.dsn and not invocation.out.is_json:
        _note_refs(invocation)


def _note_refs(invocation: Invocation) -> None:
    """Print the place of the refs once, if a backup of the home would miss them."""
    # Lazy import: only the embedded server needs it.
    from sparklake.stores.embedded import refs_outside

    home = invocation.settings.home
    place = refs_outside(home)
    if place is not None and len(invocation.lake.repositories()) == 1:
        invocation.out.note(
            f"branches, tags and commits are in {place}, not in {home}: back up or mount both, or "
            "start with SPARKLAKE_HOME in a folder that other accounts can enter, such as /data"
        )


@app.add("list")
def list_repositories(invocation: Invocation) -> None:
    """List the repositories of the lake."""
    documents = [repository_document(each.info) for each in invocation.lake.repositories()]
    if not documents:
        invocation.out.note(
            "no repositories yet: sparklake repo create lakefs://REPO STORAGE_NAMESPACE"
        )
    invocation.out.table(
        documents,
        {
            "repository": lambda each: SCHEME + each["name"],
            "storage namespace": lambda each: one_line(each["storage_namespace"]),
            "default branch": lambda each: each["default_branch"],
            "created": lambda each: date(each["creation_date"]),
            "": lambda each: "read-only" if each["read_only"] else "",
        },
    )


@app.add()
def show(invocation: Invocation, uri: RepositoryArgument) -> None:
    """Show the location, settings and metadata of a repository."""
    _print(invocation, invocation.repository(repository_uri(uri)).info)


@app.add("set")
def set_repository(
    invocation: Invocation,
    uri: RepositoryArgument,
    read_only: ReadOnlyOption = False,
    writable: Annotated[bool, flag("Make the repository writable again.")] = False,
    meta: MetaOption = None,
    unset: Annotated[
        list[str] | None, option("Remove the metadata with this key; repeatable.", metavar="K")
    ] = None,
) -> None:
    """Make a repository read-only or writable, or edit metadata."""
    name, metadata = repository_uri(uri), labels(meta)
    if read_only and writable:
        raise InvalidInputError("choose one of --read-only and --writable")
    change = read_only if read_only or writable else None
    if change is None and not metadata and not unset:
        raise InvalidInputError("choose what to set: --read-only, --writable, --meta or --unset")
    invocation.repository(name).settings.edit_metadata(metadata, unset or (), change)
    _print(invocation, invocation.repository(name).info)


@app.add()
def delete(
    invocation: Invocation,
    uri: RepositoryArgument,
    yes: YesOption = False,
    force: Annotated[bool, flag("Delete even if the repository is read-only.")] = False,
) -> None:
    """Delete a repository and its history, but no stored objects."""
    name = repository_uri(uri)
    repository = invocation.repository(name)
    namespace = repository.info.storage_namespace
    if not yes:
        staged = sum(each.count_staged() for each in repository.branches(hidden=True))
        invocation.out.confirm(
            f"This permanently deletes the branches, tags, commits and "
            f"{count_of(staged, 'staged change')} of {SCHEME}{name}. "
            f"The files in {one_line(namespace)} stay.",
            "Delete it?",
        )
    invocation.lake.delete_repository(name, force)
    invocation.out.one(
        {"name": name, "deleted": True, "storage_namespace": namespace},
        f"{SCHEME}{name} is deleted; the files in {one_line(namespace)} stay",
    )


def _print(invocation: Invocation, info: RepositoryInfo) -> None:
    lines = [
        f"{SCHEME}{info.name}" + (" (read-only)" if info.settings.read_only else ""),
        f"    storage namespace  {one_line(info.storage_namespace)}",
        f"    default branch     {info.default_branch}",
        f"    created            {date(info.creation_date)}",
        f"    range records      {info.range_records}",
        *(
            f"    {one_line(name)} = {one_line(text)}"
            for name, text in info.settings.metadata.items()
        ),
    ]
    invocation.out.one(repository_document(info), "\n".join(lines))
