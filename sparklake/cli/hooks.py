"""`sparklake hooks`: runs, show, validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import global_options
from sparklake.cli.text import date, one_line
from sparklake.documents import Document, action_document, hook_run_document
from sparklake.errors import InvalidInputError
from sparklake.uri import refs_uri, repository_uri

app = typer.Typer(name="hooks", help="Hooks: runs, show, validate.", no_args_is_help=True)
app.callback()(global_options)


@app.command()
@command
def runs(
    invocation: Invocation,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO[/REF]", show_default=False)],
    amount: Annotated[
        int, typer.Option("--amount", "-n", min=1, help="Show at most this many runs.")
    ] = 100,
) -> None:
    """Show the runs of hooks and their results, newest first."""
    repository, ref = refs_uri(uri)
    found = invocation.repository(repository).hook_runs(amount, ref)
    invocation.out.table(
        [hook_run_document(each) for each in found],
        {
            "date": lambda each: date(each["date"]),
            "event": lambda each: each["event"],
            "ref": lambda each: each["ref"],
            "who": lambda each: one_line(each["who"]),
            "status": lambda each: each["status"],
            "hooks": lambda each: str(len(each["hooks"])),
            "run": lambda each: each["id"],
        },
    )


@app.command()
@command
def show(
    invocation: Invocation,
    uri: Annotated[str, typer.Argument(metavar="lakefs://REPO", show_default=False)],
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
) -> None:
    """Show one run: each hook, its result and its output."""
    document = hook_run_document(invocation.repository(repository_uri(uri)).hook_run(run))
    invocation.out.one(document, _text(document))


@app.command()
@command
def validate(
    invocation: Invocation,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", show_default=False)],
) -> None:
    """Check local hook files before you put them on a branch."""
    # Lazy import: it loads the YAML reader.
    from sparklake.hooks.declarations import parse_action

    documents: list[Document] = []
    for each in files:
        try:
            documents.append(action_document(parse_action(str(each), each.read_bytes())))
        except OSError as error:
            raise InvalidInputError(f"cannot read {each}: {error.strerror}") from None
    invocation.out.many(documents, _line)


def _text(run: Document) -> str:
    lines = [
        f"{run['event']} of {run['ref']}: {run['status']}",
        f"run {run['id']}, {date(run['date'])}, by {one_line(run['who'])}",
        *([f"commit {run['commit_id']}"] if run["commit_id"] else []),
    ]
    for each in run["hooks"]:
        lines += [
            "",
            f"{each['status']} {one_line(each['hook'])} ({each['type']}) of "
            f"{one_line(each['file'])}, {each['milliseconds']} ms",
            *(f"    {one_line(line)}" for line in each["output"].splitlines()),
        ]
    return "\n".join(lines)


def _line(action: Document) -> str:
    hooks = one_line(", ".join(action["hooks"]))
    return f"{one_line(action['file'])}: {', '.join(action['on'])}: {hooks}"
