"""What is the same in every job: open the lake with Spark, print JSON, exit with the right code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence

from sparklake.config import Engine
from sparklake.errors import SparklakeError
from sparklake.lake import Lake, connect
from sparklake.report import Document, error_document, json_list, json_object
from sparklake.session import spark_session

Verb = Callable[[Lake, Namespace], Document | Iterable[Document]]


def job_parser(description: str | None) -> ArgumentParser:
    """Returns a parser of what every job takes."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--dsn", help="the Postgres of the refs; SPARKLAKE_DSN")
    parser.add_argument("--home", help="where an embedded one is, without a DSN; SPARKLAKE_HOME")
    parser.add_argument("--engine", choices=[each.value for each in Engine])
    return parser


def commit_parser(description: str | None) -> ArgumentParser:
    """Returns a parser of what every job takes that commits."""
    parser = job_parser(description)
    parser.add_argument("-m", "--message")
    parser.add_argument("--committer", help="SPARKLAKE_COMMITTER, or this user")
    parser.add_argument("--meta", action="append", metavar="K=V", help="a label; repeatable")
    return parser


def run(parser: ArgumentParser, verb: Verb, argv: Sequence[str] | None = None) -> int:
    """Runs one verb on a lake that uses this job's Spark; returns the exit code."""
    arguments = parser.parse_args(argv)
    try:
        with connect(
            home=arguments.home,
            dsn=arguments.dsn,
            spark=spark_session(f"sparklake {verb.__name__}"),
            engine=arguments.engine,
        ) as lake:
            _write(verb(lake, arguments))
    except SparklakeError as error:
        _write(error_document(error))
        return error.exit_code
    return 0


def _write(result: Document | Iterable[Document]) -> None:
    if isinstance(result, Mapping):
        sys.stdout.write(f"{json_object(result)}\n")
    else:
        sys.stdout.writelines(json_list(result))
