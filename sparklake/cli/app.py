"""The command grammar: the names of all commands and their modules."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator
from copy import copy
from importlib import import_module
from inspect import getdoc
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

from sparklake.cli import options
from sparklake.cli.completion.names import complete_names
from sparklake.cli.light_commands import first_sentence, lighten
from sparklake.cli.options import global_options
from sparklake.cli.other_words import understood

HELP_NAMES = ["-h", "--help"]

VERBS = {
    "import": "imports:import_objects",
    "export": "exports:export",
    "register": "exports:register",
    "put": "objects:put",
    "stage": "objects:stage",
    "rm": "objects:rm",
    "mv": "objects:mv",
    "cp": "objects:cp",
    "ls": "objects:ls",
    "stat": "objects:stat",
    "cat": "objects:cat",
    "url": "objects:url",
    "commit": "commits:commit",
    "reset": "commits:reset",
    "restore": "objects:restore",
    "hard-reset": "refs.moves:hard_reset",
    "status": "history:status",
    "diff": "commits:diff",
    "diff-table": "tables:diff_table",
    "merge": "merges:merge",
    "revert": "merges:revert",
    "cherry-pick": "merges:cherry_pick",
    "rebase": "merges:rebase",
    "log": "history:log",
    "show": "history:show",
    "blame": "history:blame",
    "merge-base": "merges:merge_base",
    "sql": "sql:sql",
    "write": "tables:write",
    "writes": "tables:writes",
    "abandon-write": "tables:abandon_write",
    "check": "checks:check",
    "repair": "repairs:repair",
    "completion": "completion.command:completion",
}
"""The module and function of each command, in the order of the help."""

NOUNS = {
    "repo": "refs.repositories",
    "branch": "refs.branches",
    "protect": "refs.protection",
    "tag": "refs.tags",
    "refs": "dumps",
    "op": "refs.moves",
    "hooks": "hooks",
    "gc": "gc",
    "purge": "purges",
    "cache": "cache",
    "jobs": "jobs",
}
"""The module of each group of commands, whose grammar is its `app`."""


class _Commands(UserDict[str, Any]):
    """The commands and groups by name, built on first use: one takes 1 ms, all take 0.1 s."""

    def __init__(self) -> None:
        super().__init__()
        self.data = dict.fromkeys([*VERBS, *NOUNS])

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            self.data[name] = _command(name)
        return self.data[name]


class Grammar(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        words, advice = understood(args)
        if advice is not None:
            ctx.fail(advice)
        return super().resolve_command(ctx, words)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write names and first sentences, without building the commands' options."""
        TyperGroup.format_commands(self._outline(), ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        if not ctx.parent and not incomplete.startswith("-"):
            ctx.command = self._outline(incomplete)
        return super().shell_complete(ctx, incomplete)

    def _outline(self, start: str = "") -> Grammar:
        """Return the grammar without the commands' options, to save time."""
        outline = copy(self)
        names = (each for each in self.commands if each.startswith(start))
        outline.commands = {each: _outline(each) for each in names}
        return outline


def _command(name: str) -> Any:
    built: Any
    if name in NOUNS:
        built = get_group(_module(NOUNS[name]).app)
    else:
        single = typer.Typer(add_completion=False)
        single.command(name)(_function(name))
        built = get_command(single)
    for each in _with_subcommands(built):
        lighten(each)
        complete_names(each)
    return built


def _with_subcommands(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from _with_subcommands(each)


def _outline(name: str) -> TyperCommand:
    """Return a command or group without its options."""
    text = _module(NOUNS[name]).app.info.help if name in NOUNS else getdoc(_function(name))
    return TyperCommand(name, short_help=first_sentence(text))


def _function(name: str) -> Any:
    module, _, function = VERBS[name].partition(":")
    return getattr(_module(module), function)


def _module(name: str) -> Any:
    return import_module(f"sparklake.cli.{name}")


app = typer.Typer(
    name="sparklake",
    cls=Grammar,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_NAMES},
    epilog="Exit codes: 0 done, 1 unexpected error, 2 wrong usage, 3 conflict, 4 nothing to do "
    "or blocked by uncommitted changes, 5 lost a race, 6 rejected by a hook, 7 merge strategy "
    "failed, 8 expired commit, 9 a check found warnings, 10 lost or damaged data, 11 not "
    "permitted, 12 store or Postgres unavailable, 13 not found, 14 already exists, 15 missing "
    "extra, 130 interrupted.",
)


def _print_version(context: typer.Context, requested: bool) -> None:
    if requested and not context.resilient_parsing:
        # Lazy imports: the first one takes a third of the start-up time.
        from importlib.metadata import version

        from sparklake.graveler import kernel_choice

        typer.echo(f"sparklake {version('sparklake')}, kernels: {kernel_choice.advice()}")
        raise typer.Exit


@app.callback()
def sparklake(
    context: typer.Context,
    output: options.OutputOption = None,
    engine: options.EngineOption = None,
    home: options.HomeOption = None,
    dsn: options.DsnOption = None,
    result_file: options.ResultFileOption = None,
    no_pager: options.NoPagerOption = None,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Git for data lakes: branches, commits, diff and merge.

    Name repositories, refs and objects as lakefs://REPOSITORY/REF/KEY.
    """
    global_options(
        context, output, engine, home=home, dsn=dsn, result_file=result_file, no_pager=no_pager
    )
