"""`sparklake repo`: create, list, delete."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.options import global_options
from sparklake.cli.session import Session, command
from sparklake.cli.text import date, shown
from sparklake.report import repository_document
from sparklake.uri import SCHEME, repository_uri

app = typer.Typer(name="repo", help="Repositories: create, list, delete.", no_args_is_help=True)
app.callback()(global_options)

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]


@app.command()
@command
def create(
    session: Session,
    uri: RepositoryArgument,
    storage_namespace: Annotated[
        str,
        typer.Argument(help="An unused directory, or s3://bucket/prefix.", show_default=False),
    ],
    default_branch: Annotated[str, typer.Option(help="Its first branch.")] = "main",
    range_records: Annotated[
        int | None,
        typer.Option(help="How many objects a range holds, about.", show_default=False),
    ] = None,
) -> None:
    """Create a repository in an unused storage namespace."""
    chosen = {} if range_records is None else {"range_records": range_records}
    name = repository_uri(uri)
    repository = session.lake.create_repository(name, storage_namespace, default_branch, **chosen)
    info = repository.info
    session.out.one(
        repository_document(info),
        f"{SCHEME}{info.name} is in {shown(info.storage_namespace)}, "
        f"with the branch {info.default_branch}",
    )


@app.command("list")
@command
def list_repositories(session: Session) -> None:
    """List the repositories of the lake."""
    found = [repository_document(each.info) for each in session.lake.repositories()]
    if not found:
        session.out.note("no repository yet: sparklake repo create lakefs://REPO STORAGE_NAMESPACE")
    session.out.table(
        found,
        {
            "repository": lambda each: SCHEME + each["name"],
            "storage namespace": lambda each: shown(each["storage_namespace"]),
            "default branch": lambda each: each["default_branch"],
            "created": lambda each: date(each["creation_date"]),
        },
    )


@app.command()
@command
def delete(
    session: Session,
    uri: RepositoryArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask on a terminal.")] = False,
) -> None:
    """Forget a repository and its history; its storage namespace stays as it is."""
    name = repository_uri(uri)
    namespace = session.repository(name).info.storage_namespace
    if not yes:
        session.out.confirm(
            f"This forgets {SCHEME}{name} for good: its branches, tags and commits, and what is "
            f"staged. What is in {shown(namespace)} stays. Delete it?"
        )
    session.lake.delete_repository(name)
    session.out.one(
        {"name": name, "deleted": True, "storage_namespace": namespace},
        f"{SCHEME}{name} is forgotten; what is in {shown(namespace)} stays",
    )
