"""`sparklake refs`: dump, restore."""

from __future__ import annotations

from typing import Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import RepositoryArgument, argument, flag, option
from sparklake.cli.parsing import renames
from sparklake.cli.text import one_line
from sparklake.documents import dump_document, repository_document
from sparklake.uri import SCHEME, repository_uri
from sparklake.visible import count_of

app = Group("refs", "Backups of branches, tags and commits: dump, restore.")


@app.add()
def dump(
    invocation: Invocation,
    uri: RepositoryArgument,
    overwrite: Annotated[
        bool, flag("Overwrite another program's dump, or one with lost refs.")
    ] = False,
    check_addresses: Annotated[
        bool,
        option(
            "Read all addresses, and warn about those lakeFS rejects.",
            "--check-addresses/--no-check-addresses",
        ),
    ] = True,
) -> None:
    """Write all refs and commits into the storage namespace.

    The dump has lakeFS's format. It does not include staged changes: commit them first.
    """
    repository = invocation.repository(repository_uri(uri))
    result = repository.dump_refs(overwrite, check_addresses)
    invocation.out.one(
        dump_document(result),
        f"{count_of(result.branches, 'branch', 'branches')}, {count_of(result.tags, 'tag')} and "
        f"{count_of(result.commits, 'commit')} of {SCHEME}{repository.name} are in "
        f"{one_line(repository.info.storage_namespace)}",
    )
    if result.dirty:
        invocation.out.note(
            f"staged changes are not dumped: commit those of {', '.join(result.dirty)}"
        )
    for warning in result.warnings:
        invocation.out.note(warning)


@app.add()
def restore(
    invocation: Invocation,
    uri: RepositoryArgument,
    storage_namespace: Annotated[
        str, argument(help="The namespace with a dump of sparklake or lakeFS.")
    ],
    default_branch: Annotated[
        str | None, option("Default branch, if a lakeFS dump has no main.")
    ] = None,
    range_records: Annotated[
        int | None, option("Average objects per range, for a lakeFS dump.")
    ] = None,
    rename: Annotated[
        list[str] | None, option("Rename this branch or tag; repeatable.", metavar="OLD=NEW")
    ] = None,
    incomplete: Annotated[bool, flag("Accept missing and damaged tree files.")] = False,
    manifest: Annotated[
        str | None,
        option("The manifest printed by `lakectl refs-dump`; - for stdin.", metavar="FILE|URI|-"),
    ] = None,
    accept_old: Annotated[bool, flag("Accept a dump that is not the newest one.")] = False,
    check_addresses: Annotated[
        bool,
        option(
            "Read all addresses, and report those in unsupported stores.",
            "--check-addresses/--no-check-addresses",
        ),
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
        f"{count_of(len(repository.branches()), 'branch', 'branches')} and "
        f"{count_of(len(repository.tags()), 'tag')}",
    )
    for note in notes:
        invocation.out.note(note)
