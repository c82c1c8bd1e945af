"""Options that several commands take, and what is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from sparklake.errors import InvalidInputError

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


def labels(given: Sequence[str] | None) -> dict[str, str]:
    """Returns labels from `K=V` texts; raises InvalidInputError."""
    pairs = [text.partition("=") for text in given or ()]
    for text, (name, equals, _) in zip(given or (), pairs, strict=True):
        if not (name and equals):
            raise InvalidInputError(f"--meta takes KEY=VALUE, not {text!r}")
    return {name: value for name, _, value in pairs}
