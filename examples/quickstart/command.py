"""The command: it picks files and a name, runs the steps, and suggests next commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from shutil import which
from time import perf_counter
from typing import Annotated

import typer

from examples.quickstart.demo import Demo, check_spark, new_demo
from examples.quickstart.steps import STEPS
from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import Options
from sparklake.cli.output import Output
from sparklake.cli.text import one_line
from sparklake.documents import Document
from sparklake.graveler import kernel_choice

WIDTH = 88

_NAME = "sparklake"


@command
def quickstart(
    invocation: Invocation,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR]",
            help="Use the files of this folder. Default: sample orders.",
            show_default=False,
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URI",
            help="Put the repository into this bucket or folder. Default: the home.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Run a guided demo.

    It creates a new repository, and shows the time of each step.
    """
    invocation.uses_spark = True
    check_spark()
    demo = new_demo(invocation.lake, invocation.settings.home, folder, store)
    out = invocation.out
    out.note(f"kernels: {kernel_choice.advice()}")
    out.note(f"{demo.description} become the repository {demo.repository_uri}\n")
    out.many(_told(demo, out), lambda step: _page(out, step))
    out.note("\n".join(["Try next:", *_next_lines(demo, invocation.options)]))


def _next_lines(demo: Demo, options: Options) -> Iterator[str]:
    """Yield commands to try next, with the home that was given to this command."""
    home = "" if options.home is None else f" --home {quote(str(options.home))}"
    script = Path(sys.executable).with_name(_NAME)
    program = program_to_type(script)
    for line in demo.next_commands():
        yield f"  {program} {line}{home}"
    files = f" && rm -r {quote(str(demo.place))}" if demo.place.exists() else ""
    yield f"  {program} repo delete {demo.repository_uri}{home}{files}"
    if not demo.namespace.startswith(str(demo.place)):
        yield f"Then delete {demo.namespace}/ with the tools of its store."
    if options.dsn is not None:
        yield "Add --dsn to each of them, as to this command."
    activate = script.with_name("activate")
    if program != _NAME and activate.exists():
        yield f"To type only {_NAME}: `. {_path_to_type(activate)}`"


def program_to_type(script: Path) -> str:
    """Return what to type for `sparklake`: the path of its script, if not on the PATH."""
    return _path_to_type(script) if script.exists() and which(_NAME) != str(script) else _NAME


def _path_to_type(path: Path) -> str:
    """Quote a path for a shell. Below the working folder, it is relative and has a slash."""
    here = Path.cwd()
    return quote(str(path.relative_to(here) if here in path.parents[1:] else path))


def _told(demo: Demo, out: Output) -> Iterator[Document]:
    """Run the steps one by one; yield the result and time of each."""
    for number, (title, act) in enumerate(STEPS, start=1):
        start = perf_counter()
        with out.working(title):
            done = act(demo)
        yield {
            "step": number,
            "title": title,
            "command": done.command,
            "seconds": round(perf_counter() - start, 3),
            "facts": done.facts,
        }


def _page(out: Output, step: Document) -> str:
    title = f"{step['step']:>2}. {step['title']}"
    head = f"{title:<{WIDTH - 10}}{step['seconds']:>8.2f} s"
    lines = [
        out.coloured(head, "green"),
        *(
            out.coloured(f"    {_prompt(one_line(line))}", "cyan")
            for line in step["command"].splitlines()
        ),
        *(f"    {one_line(fact)}" for fact in step["facts"]),
    ]
    return "\n".join([*lines, ""])


def _prompt(line: str) -> str:
    """Return a line with the prompt of a shell or of Python."""
    return f"$ {line}" if line.startswith("sparklake ") else f">>> {line}"
