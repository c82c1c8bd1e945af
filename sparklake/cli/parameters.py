"""Options that several commands take."""

from __future__ import annotations

from typing import Annotated

import typer

from sparklake.graveler.classification import Strategy

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
PATHS_HELP = "Only this object, or what is below a prefix that ends with '/'; repeatable."
PathsOption = Annotated[
    list[str] | None, typer.Option("--path", help=PATHS_HELP, show_default=False)
]
StrategyOption = Annotated[
    Strategy | None,
    typer.Option(help="Which side wins every conflict.", show_default=False),
]
