"""What is the same in every job: open the lake, print JSON, exit with the right code."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from sparklake.arguments import labels, rule_pairs
from sparklake.branch import Branch
from sparklake.config import Engine
from sparklake.documents import Document, error_document, json_list, json_object
from sparklake.errors import InterruptError, InvalidInputError, SparklakeError
from sparklake.extras import missing_extras
from sparklake.interrupts import ending_soon
from sparklake.lake import Lake, connect
from sparklake.repository import Repository
from sparklake.session import submitted_session
from sparklake.udfs.strategies.choosing import check_rule, named_strategy
from sparklake.uri import ref_uri, same_repository

Result = Document | Iterable[Document] | bytes
Verb = Callable[[Lake, Namespace], Result]


def job_parser(description: str | None) -> ArgumentParser:
    """Return a parser of what every job takes."""
    parser = ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--dsn", help="the Postgres of the refs; SPARKLAKE_DSN")
    parser.add_argument("--home", help="where an embedded one is, without a DSN; SPARKLAKE_HOME")
    parser.add_argument("--engine", choices=[each.value for each in Engine])
    return parser


def explain_option(parser: ArgumentParser) -> None:
    """Let a job tell what it would do, and change nothing."""
    parser.add_argument("--explain", action="store_true", help="what would be read, and where")


def paths_option(parser: ArgumentParser, *, required: bool = False) -> None:
    """Let a job keep to chosen paths."""
    what = "only this object, or what is below a prefix that ends with '/'; repeatable"
    parser.add_argument("--path", action="append", required=required, help=what)


def commit_parser(description: str | None) -> ArgumentParser:
    """Return a parser of what every job takes that commits."""
    parser = job_parser(description)
    parser.add_argument("-m", "--message")
    parser.add_argument("--committer", help="SPARKLAKE_COMMITTER, or this user")
    parser.add_argument("--meta", action="append", metavar="K=V", help="a label; repeatable")
    return parser


def signing(arguments: Namespace) -> dict[str, Any]:
    """Return what `commit_parser` has parsed, as the verbs take it that commit."""
    return {
        "message": arguments.message,
        "committer": arguments.committer,
        "metadata": labels(arguments.meta),
    }


def deciding_options(parser: ArgumentParser) -> None:
    """Let a job be told how conflicts are decided."""
    parser.add_argument("--strategy", metavar="NAME", type=_checked(named_strategy))
    parser.add_argument(
        "--rule", action="append", metavar="GLOB=NAME", type=_checked(check_rule), help="repeatable"
    )
    parser.add_argument("--no-delta", action="store_true", help="merge logs of tables by files")


def deciding(arguments: Namespace) -> dict[str, Any]:
    """Return what `deciding_options` has parsed, as the verbs take it that merge."""
    return {
        "strategy": arguments.strategy,
        "rules": rule_pairs(arguments.rule),
        "delta": not arguments.no_delta,
    }


def _checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """Return the parser of a text that must pass a check."""

    def parse(text: str) -> str:
        try:
            check(text)
        except InvalidInputError as error:
            raise ArgumentTypeError(str(error)) from error
        return text

    return parse


def replay_parser(description: str | None) -> ArgumentParser:
    """Return a parser of what every job takes that makes commits of the changes of others."""
    parser = commit_parser(description)
    parser.add_argument("branch", metavar="lakefs://REPO/BRANCH")
    parser.add_argument("refs", metavar="lakefs://REPO/REF", nargs="+")
    parser.add_argument("--parent-number", type=positive, help="of a merge")
    deciding_options(parser)
    parser.add_argument("--allow-empty", action="store_true")
    return parser


def replaying(lake: Lake, arguments: Namespace) -> tuple[Branch, list[str], dict[str, Any]]:
    """Return what `replay_parser` has parsed: the branch, the refs, and how they are replayed."""
    refs = [refs_at(lake, arguments.branch, each)[2] for each in arguments.refs]
    terms = {name: getattr(arguments, name) for name in ("parent_number", "allow_empty")}
    terms |= {**deciding(arguments), **signing(arguments)}
    return branch_at(lake, arguments.branch), refs, terms


def positive(text: str) -> int:
    """Parse a number from 1 on."""
    if not text.isdecimal() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def branch_at(lake: Lake, text: str) -> Branch:
    """Open the branch that a URI names."""
    target = ref_uri(text)
    return lake.repository(target.repository).branch(target.ref)


def refs_at(
    lake: Lake, first: str, second: str, force: bool = False
) -> tuple[Repository, str, str]:
    """Open the repository of two refs that URIs name; return it and the refs."""
    one, other = ref_uri(first), ref_uri(second)
    return lake.repository(same_repository(one, other), force), one.ref, other.ref


def run(parser: ArgumentParser, verb: Verb, argv: Sequence[str] | None = None) -> int:
    """Run one verb on a lake and print its result; return the exit code.

    The lake uses the session that spark-submit is for. Without one, Spark is started by a verb that
    cannot do without, and by no other.
    """
    arguments = parser.parse_intermixed_args(argv)
    has_begun = False

    def say() -> None:
        _fail(InterruptError(), has_begun=has_begun)
        sys.stdout.flush()

    try:
        with (
            ending_soon(say) if argv is None else nullcontext(),
            missing_extras(),
            connect(
                home=arguments.home,
                dsn=arguments.dsn,
                spark=submitted_session(f"sparklake {verb.__name__}"),
                engine=arguments.engine,
            ) as lake,
        ):
            for part in _parts(verb(lake, arguments)):
                has_begun = True
                _write(part)
    except SparklakeError as error:
        return _fail(error, has_begun=has_begun)
    except KeyboardInterrupt:
        return _fail(InterruptError(), has_begun=has_begun)
    return 0


def _fail(error: SparklakeError, *, has_begun: bool) -> int:
    # A list that is cut short stays without its end, and so cannot be taken for whole.
    stream = sys.stderr if has_begun else sys.stdout
    stream.write(f"{json_object(error_document(error))}\n")
    return error.exit_code


def _parts(result: Result) -> Iterator[str | bytes]:
    if isinstance(result, bytes):
        yield result
    elif isinstance(result, Mapping):
        yield f"{json_object(result)}\n"
    else:
        yield from json_list(result)


def _write(part: str | bytes) -> None:
    if isinstance(part, bytes):
        sys.stdout.flush()
        sys.stdout.buffer.write(part)
    else:
        sys.stdout.write(part)
