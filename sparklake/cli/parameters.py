"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.errors import InvalidInputError


def _strategy(text: str) -> str:
    return _checked("named_strategy", text)


def _rule(text: str) -> str:
    return _checked("check_rule", text)


def _checked(check: str, text: str) -> str:
    """Returns what may decide conflicts; nothing that it names is imported yet."""
    # Not at the top: the command starts in less time than that takes.
    from sparklake.udfs.strategies import choosing

    try:
        getattr(choosing, check)(text)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from error
    return text


BranchArgument = Annotated[str, typer.Argument(metavar="lakefs://REPO/BRANCH", show_default=False)]
MetaOption = Annotated[
    list[str] | None,
    typer.Option("--meta", metavar="K=V", help="A label; may be given several times."),
]
CommitterOption = Annotated[
    str | None,
    typer.Option(help="Who commits; SPARKLAKE_COMMITTER, or this user.", show_default=False),
]
MessageOption = Annotated[
    str | None,
    typer.Option("--message", "-m", help="What changed and why.", show_default=False),
]
_PATHS = typer.Option(
    "--path",
    metavar="PATH",
    help="Only this object, or with PATH/ what is below it; may be given several times.",
    show_default=False,
)
PathsOption = Annotated[list[str] | None, _PATHS]
RequiredPathsOption = Annotated[list[str], _PATHS]
StrategyOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        parser=_strategy,
        help="What decides conflicts: source-wins, dest-wins, newest-wins, larger-wins, "
        "union-lines, keep-both, none, or a module:function.",
        show_default=False,
    ),
]
NoDeltaOption = Annotated[
    bool,
    typer.Option("--no-delta", help="Do not unite logs of Delta tables: merge them file by file."),
]
RuleOption = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="GLOB=NAME",
        parser=_rule,
        help="A strategy for some paths; may be given several times, the first that fits counts.",
    ),
]
