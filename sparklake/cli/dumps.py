"""`sparklake refs`: dump, restore."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import global_options
from sparklake.cli.parsing import renames
from sparklake.cli.text import number, one_line
from sparklake.documents import dump_document, repository_document
from sparklake.uri import SCHEME, repository_uri

app = typer.Typer(
    name="refs", help="Backups of branches, tags and commits: dump, restore.", no_args_is_help=True
)
app.callback()(global_options)

RepositoryArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)]


@app.command()
@command
def dump(
    invocation: Invocation,
    uri: RepositoryArgument,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Replace a dump of another program, or one with lost refs."
        ),
    ] = False,
    check_addresses: Annotated[
        bool, typer.Option(help="Read all addresses, and warn about those lakeFS cannot read.")
    ] = True,
) -> None:
    """Write all refs and commits into the storage namespace.

    The dump has lakeFS's format. It does not include staged changes: commit them first.
    """
    repository = invocation.repository(repository_uri(uri))
    made = repository.dump_refs(overwrite, check_addresses)
    invocation.out.one(
        dump_document(made),
        f"{number(made.branches, 'branch', 'branches')}, {number(made.tags, 'tag')} and "
        f"{number(made.commits, 'commit')} of {SCHEME}{repository.name} are in "
        f"{one_line(repository.info.storage_namespace)}",
    )
    if made.dirty:
        invocation.out.note(
            f"staged changes are not dumped: commit those of {', '.join(made.dirty)}"
        )
    for warning in made.warnings:
        invocation.out.note(warning)


@app.command()
@command
def restore(
    invocation: Invocation,
    uri: RepositoryArgument,
    storage_namespace: Annotated[
        str,
        typer.Argument(
            help="The namespace with a dump of sparklake or lakeFS.", show_default=False
        ),
    ],
    default_branch: Annotated[
        str | None,
        typer.Option(help="Default branch, if a dump of lakeFS has no main.", show_default=False),
    ] = None,
    range_records: Annotated[
        int | None,
        typer.Option(help="Average objects per range, for a dump of lakeFS.", show_default=False),
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option(metavar="OLD=NEW", help="Rename this branch or tag; repeatable."),
    ] = None,
    incomplete: Annotated[
        bool, typer.Option("--incomplete", help="Accept missing and damaged tables of trees.")
    ] = False,
    manifest: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URI|-",
            help="The manifest that `lakectl refs-dump` prints; - for stdin.",
            show_default=False,
        ),
    ] = None,
    accept_old: Annotated[
        bool, typer.Option("--accept-old", help="Accept a dump that is not the newest one.")
    ] = False,
    check_addresses: Annotated[
        bool, typer.Option(help="Read all addresses, and name those without a known store.")
    ] = True,
) -> None:
    """Create a repository from the dump in a storage namespace.

    The dump and all metaranges are verified first, and one error names all problems. No other
    repository may keep using the namespace.
    """
    name, notes = repository_uri(uri), list[str]()
    repository = invocation.lake.restore_repository(
        name,
        storage_namespace,
        default_branch=default_branch,
        range_records=range_records,
        rename=renames(rename),
        incomplete=incomplete,
        on_note=notes.append,
        manifest=manifest,
        accept_old=accept_old,
        check_addresses=check_addresses,
    )
    info = repository.info
    invocation.out.one(
        repository_document(info),
        f"{SCHEME}{name} is restored from {one_line(info.storage_namespace)}, with "
        f"{number(len(repository.branches()), 'branch', 'branches')} and "
        f"{number(len(repository.tags()), 'tag')}",
    )
    for note in notes:
        invocation.out.note(note)
