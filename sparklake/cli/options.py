"""Shared options: output, engine, home, DSN, paths, strategies."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from sparklake.config import Engine
from sparklake.errors import InvalidInputError

_PANEL = "Global options"


def argument(metavar: str | None = None, **settings: Any) -> Any:
    return typer.Argument(metavar=metavar, show_default=False, **settings)


def option(text: str, *names: str, **settings: Any) -> Any:
    return typer.Option(*names, help=text, **settings)


def _global(text: str, *names: str, **settings: Any) -> Any:
    return option(text, *names, rich_help_panel=_PANEL, **settings)


def flag(text: str, *names: str) -> Any:
    """Declare a flag with its help. `command` names it after the parameter."""
    return typer.Option(*names, help=text)


class Format(str, Enum):
    """The output format. JSONL prints one line for each row of a listing."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"


@dataclass(frozen=True, slots=True)
class Options:
    """The global options. None means: use the environment and the settings file.

    `owns_process` reports that this process runs only this command. Jobs never prompt.
    """

    output: Format = Format.TEXT
    engine: Engine | None = None
    home: Path | None = None
    dsn: str | None = None
    result_file: Path | None = None
    owns_process: bool = False
    is_job: bool = False
    no_pager: bool = False


OutputOption = Annotated[Format | None, _global("Print results in this format.")]
EngineOption = Annotated[
    Engine | None, _global("Run plans on this engine. local is this machine; auto chooses by size.")
]
HomeOption = Annotated[
    Path | None,
    _global(
        "Folder of the embedded Postgres. Default: SPARKLAKE_HOME or ~/.sparklake. "
        "As root, refs of a private folder are in /var/lib/sparklake.",
        metavar="DIR",
    ),
]
DsnOption = Annotated[
    str | None,
    _global("Use this Postgres, not the embedded one. Default: SPARKLAKE_DSN.", metavar="DSN"),
]
ResultFileOption = Annotated[
    Path | None, _global("Also write the result to this file, as JSON.", metavar="FILE")
]
NoPagerOption = Annotated[
    bool | None, _global("Do not show text in a pager (PAGER) on a terminal.", "--no-pager")
]


def global_options(
    context: typer.Context,
    output: OutputOption = None,
    engine: EngineOption = None,
    home: HomeOption = None,
    dsn: DsnOption = None,
    result_file: ResultFileOption = None,
    no_pager: NoPagerOption = None,
) -> None:
    """Record the options of one level of a command line. The innermost take precedence."""
    values = {"output": output, "engine": engine, "home": home, "dsn": dsn}
    absorbed(context, {**values, "result_file": result_file, "no_pager": no_pager})


def absorbed(context: typer.Context, values: dict[str, Any]) -> Options:
    inherited = context.ensure_object(dict)
    inherited.update({name: value for name, value in values.items() if value is not None})
    return Options(**inherited)


GIT_STRATEGIES = {"ours": "dest-wins", "theirs": "source-wins"}
"""Git's names of strategies: ours is the changed branch, and theirs is merged into it."""


ConflictRowsOption = Annotated[
    str | None,
    option("Write all rows in conflict to a JSON Lines file.", "--conflict-rows", metavar="FILE"),
]


def without_git_names(text: str) -> str:
    """Replace Git's name of a strategy or in a rule, also for conflicting rows."""
    glob, equals, name = text.rpartition("=")
    text = f"{glob}{equals}{GIT_STRATEGIES.get(name, name)}"
    return _THEN.sub(lambda match: f"{match[1]}{GIT_STRATEGIES[match[2]]}", text)


_THEN = re.compile(r"([(,]\s*then\s*=\s*)(ours|theirs)(?=\s*[,)])")


def _strategy(text: str) -> str:
    return _checked("check_default", text, without_git_names(text))


def _rule(text: str) -> str:
    return _checked("check_rule", text, without_git_names(text))


def _checked(check: str, argument_text: str, text: str) -> str:
    """Return `argument_text` if `text` is a valid strategy or rule; import nothing."""
    # Lazy import: it takes longer than the start of the command.
    from sparklake.strategies import choosing

    try:
        getattr(choosing, check)(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error
    return argument_text


def one_of(*values: str) -> Callable[[str], list[str]]:
    """Return a completion of known values. Other values are allowed."""

    def start_with(incomplete: str) -> list[str]:
        return [each for each in values if each.startswith(incomplete)]

    return start_with


def _strategies(incomplete: str) -> list[str]:
    # Lazy import: it takes longer than the start of the command.
    from sparklake.strategies.choosing import strategy_names

    return [each for each in strategy_names() if each.startswith(incomplete)]


def _rules(incomplete: str) -> list[str]:
    glob, equals, name = incomplete.rpartition("=")
    return [f"{glob}={each}" for each in _strategies(name)] if equals else []


RepositoryArgument = Annotated[str, argument("lakefs://REPO")]
BranchArgument = Annotated[str, argument("lakefs://REPO/BRANCH")]
MetaOption = Annotated[
    list[str] | None, option("Add this metadata; repeatable.", "--meta", metavar="K=V")
]
CommitterOption = Annotated[
    str | None, option("Name of the committer. Default: SPARKLAKE_COMMITTER or this user.")
]
MessageOption = Annotated[str | None, option("Describe what changed and why.", "--message", "-m")]
_PATHS = option("Limit to this object, or all below PATH/; repeatable.", "--path", metavar="PATH")
PathsOption = Annotated[list[str] | None, _PATHS]
RequiredPathsOption = Annotated[list[str], _PATHS]
OnceOption = Annotated[
    str | None, option("Run once per key; a repeat returns the first result.", metavar="KEY")
]
IfNeededOption = Annotated[bool, flag("Succeed if there is nothing to do.", "--if-needed")]
YesOption = Annotated[bool, flag("Do not ask for confirmation.", "--yes", "-y")]
ExistOkOption = Annotated[bool, flag("Succeed if it already exists.", "--exist-ok")]
MissingOkOption = Annotated[bool, flag("Succeed if it does not exist.", "--missing-ok")]
StrategyOption = Annotated[
    str | None,
    option(
        "Resolve conflicts with this strategy, or a module:function. Strategies: "
        "source-wins (theirs), dest-wins (ours), newest-wins, larger-wins, union-lines, keep-both, "
        "none.",
        metavar="NAME",
        parser=_strategy,
        autocompletion=_strategies,
    ),
]
NoSchemaCheckOption = Annotated[
    bool, flag("Accept different column types in one table.", "--no-schema-check")
]
ShowRowsOption = Annotated[bool, flag("Show the conflicting rows of tables.", "--show-rows")]
NoTableUnionsOption = Annotated[bool, flag("Merge no histories of tables.", "--no-table-unions")]
RuleOption = Annotated[
    list[str] | None,
    option(
        "Use a strategy for matching paths; repeatable. The first match applies.",
        "--rule",
        metavar="GLOB=NAME",
        parser=_rule,
        autocompletion=_rules,
    ),
]
