"""`sparklake hooks`: runs, show, validate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from sparklake.cli.invocation import Group, Invocation
from sparklake.cli.options import RepositoryArgument, argument, option
from sparklake.cli.text import date, one_line
from sparklake.documents import Document, action_document, hook_run_document
from sparklake.errors import InvalidInputError
from sparklake.uri import refs_uri, repository_uri

app = Group("hooks", "Hooks: runs, show, validate.")


@app.add()
def runs(
    invocation: Invocation,
    uri: Annotated[str, argument("lakefs://REPO[/REF]")],
    amount: Annotated[int, option("Show at most this many runs.", "--amount", "-n", min=1)] = 100,
) -> None:
    """Show hook runs and their results, newest first."""
    repository, ref = refs_uri(uri)
    hook_runs = invocation.repository(repository).hook_runs(amount, ref)
    invocation.out.table(
        [hook_run_document(each) for each in hook_runs],
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


@app.add()
def show(
    invocation: Invocation, uri: RepositoryArgument, run: Annotated[str, argument("RUN")]
) -> None:
    """Show one run: each hook, its result and its output."""
    document = hook_run_document(invocation.repository(repository_uri(uri)).hook_run(run))
    invocation.out.one(document, _text(document))


@app.add()
def validate(invocation: Invocation, files: Annotated[list[Path], argument("FILE...")]) -> None:
    """Validate local hook files before you commit them."""
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
