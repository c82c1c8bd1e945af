"""The command grammar: all commands and their groups."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.cli import (
    cache,
    hooks,
    jobs,
    objects,
)
from sparklake.cli import (
    commits as history,
)
from sparklake.cli import (
    exports as exporting,
)
from sparklake.cli import (
    gc as collecting,
)
from sparklake.cli import (
    history as logs,
)
from sparklake.cli import (
    imports as importing,
)
from sparklake.cli import (
    merges as merging,
)
from sparklake.cli import (
    merges as rebasing,
)
from sparklake.cli import (
    merges as replaying,
)
from sparklake.cli import (
    objects as restoring,
)
from sparklake.cli import (
    objects as transfers,
)
from sparklake.cli import (
    purges as purging,
)
from sparklake.cli import (
    tables as table_diffs,
)
from sparklake.cli import (
    tables as writes,
)
from sparklake.cli.options import DsnOption, EngineOption, HomeOption, OutputOption, global_options
from sparklake.cli.quickstart.command import quickstart
from sparklake.cli.refs import (
    branches as branch,
)
from sparklake.cli.refs import (
    dumps as refs,
)
from sparklake.cli.refs import (
    moves as operations,
)
from sparklake.cli.refs import (
    protection as protect,
)
from sparklake.cli.refs import (
    repositories as repo,
)
from sparklake.cli.refs import (
    tags as tag,
)

HELP_NAMES = ["-h", "--help"]

app = typer.Typer(
    name="sparklake",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_NAMES},
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage, 3 conflict, 4 nothing to do or "
    "blocked by uncommitted changes, 5 lost a race, 6 refused by a hook, 7 merge strategy "
    "failed, 8 expired commit, 130 interrupted.",
)


def _print_version(asked: bool) -> None:
    if asked:
        # Lazy import: it takes a third of the start-up time.
        from importlib.metadata import version

        typer.echo(f"sparklake {version('sparklake')}")
        raise typer.Exit


@app.callback()
def sparklake(
    context: typer.Context,
    output: OutputOption = None,
    engine: EngineOption = None,
    home: HomeOption = None,
    dsn: DsnOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Git for data lakes: branches, commits, diff and merge over an object store.

    Name repositories, refs and objects as lakefs://REPOSITORY/REF/KEY.
    """
    global_options(context, output, engine, home, dsn)


for noun in (repo, branch, protect, tag, refs, operations, hooks, collecting, purging, cache, jobs):
    app.add_typer(noun.app)
app.command("import")(importing.import_objects)
app.command()(exporting.export)
app.command()(objects.put)
app.command()(objects.stage)
app.command()(objects.rm)
app.command()(transfers.mv)
app.command()(transfers.cp)
app.command()(objects.ls)
app.command()(objects.stat)
app.command()(objects.cat)
app.command()(history.commit)
app.command()(history.reset)
app.command()(restoring.restore)
app.command("hard-reset")(operations.hard_reset)
app.command()(history.diff)
app.command("diff-table")(table_diffs.diff_table)
app.command()(merging.merge)
app.command()(replaying.revert)
app.command("cherry-pick")(replaying.cherry_pick)
app.command()(rebasing.rebase)
app.command()(logs.log)
app.command()(logs.show)
app.command()(logs.blame)
app.command("merge-base")(merging.merge_base)
app.command()(writes.write)
app.command()(writes.writes)
app.command()(writes.abandon_write)
app.command()(quickstart)
