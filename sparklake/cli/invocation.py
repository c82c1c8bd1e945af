"""One call of a command: its options, its output and the lake it opens."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import fields, is_dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar, cast, get_args, get_type_hints

import typer

from sparklake._lightness import keep_pandas_out
from sparklake.cli.job_log import logged_job
from sparklake.cli.options import Options, absorbed, global_options
from sparklake.cli.output import Output, OutputClosedError
from sparklake.cli.pager import abandon_stdout
from sparklake.config import Engine, Settings, load_settings
from sparklake.errors import InterruptError, InvalidUriError, RefNotFoundError, SparklakeError
from sparklake.extras import missing_extras
from sparklake.uri import SCHEME, RefUri, is_bare, ref_in, ref_uri
from sparklake.visible import count_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparklake.lake import Lake
    from sparklake.repository import Repository
    from sparklake.verbs.base.once import Once, VerbResult

P = ParamSpec("P")
T = TypeVar("T")

READER_GONE = 141
"""The exit code that a shell reports for a program stopped by SIGPIPE."""


class Invocation:
    def __init__(self, command: str, options: Options, out: Output, closing: ExitStack) -> None:
        self.command = command
        self.options = options
        self.out = out
        self.uses_spark = False
        self._closing = closing

    @cached_property
    def lake(self) -> Lake:
        # Lazy import: a lake loads Arrow and psycopg, which --help does not need.
        from sparklake.lake import connect

        options = self.options
        spark = self._submitted_session()
        uses_spark = spark or self.uses_spark or self.settings.engine is Engine.SPARK
        if options.owns_process and not uses_spark:
            keep_pandas_out()
        with self.out.working("opening the lake"):
            lake = connect(
                home=options.home,
                dsn=options.dsn,
                spark=spark,
                engine=options.engine,
                progress=self.out.meter,
            )
        return self._closing.enter_context(lake)

    def _submitted_session(self) -> SparkSession | None:
        if not self.options.is_job:
            return None
        # Lazy import: --help loads less.
        from sparklake.session import submitted_session

        return submitted_session(f"sparklake {self.command}")

    @property
    def settings(self) -> Settings:
        return load_settings(self.options.home, self.options.dsn, self.options.engine)

    def once(self, key: str | None, *inputs: str | None) -> Once | None:
        """Return the idempotency key. `inputs` are arguments not compared by verbs."""
        if key is None:
            return None
        # Lazy import: --help does not need it.
        from sparklake.verbs.base.once import Once

        return Once(key, [each or "" for each in inputs])

    def run(self, verb: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T:
        """Return the value of a verb, and note a repeated run or a no-op in the output."""
        return self.run_verb(verb, *arguments, **keywords).value

    def run_verb(
        self, verb: Callable[P, T], *arguments: P.args, **keywords: P.kwargs
    ) -> VerbResult[T]:
        """Run a verb, and note a repeated run or a no-op in the output."""
        # Lazy import: --help does not need it.
        from sparklake.verbs.base.runner import run_verb

        run = run_verb(verb, *arguments, **keywords)
        allows_no_op = keywords.get("if_needed") or keywords.get("exist_ok")
        self.out.report_run(run, shows_change=bool(allows_no_op))
        return run

    def repository(self, name: str) -> Repository:
        return self.lake.repository(name)

    def two_refs(self, first: str, second: str) -> tuple[RefUri, RefUri]:
        """Return two refs of one repository. One URI, or a single repository, is enough."""
        if is_bare(first) and is_bare(second):
            name = self._only_repository(first, second)
        else:
            name = ref_uri(second if is_bare(first) else first).repository
        return ref_in(name, first), ref_in(name, second)

    def _only_repository(self, *refs: str) -> str:
        names = [each.name for each in self.lake.repositories()]
        if len(names) == 1:
            return names[0]
        typed = " ".join(f"{SCHEME}REPO/{each}" for each in refs)
        raise InvalidUriError(
            f"the lake has {count_of(len(names), 'repository', 'repositories')}: "
            f"write `sparklake {self.command} {typed}`"
        )

    def page(self) -> None:
        """Page the following text at a terminal."""
        if self.options.owns_process and not self.options.is_job and not self.options.no_pager:
            self.out.page()

    @property
    def can_prompt(self) -> bool:
        """Whether a terminal can be asked for input, and shows the results."""
        out = self.out
        return out.can_ask and not out.is_json and self.options.result_file is None

    def is_dirty(self, uri: str) -> bool:
        """Return whether a branch has staged changes; False for JSON output."""
        target = ref_uri(uri)
        if self.out.is_json:
            return False
        with suppress(RefNotFoundError):
            return self.repository(target.repository).branch(target.ref).is_dirty
        return False


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap a function as a command with the global options and exit codes for errors.

    A dataclass parameter becomes one option per field, so commands can share options.
    """
    declared = _parameters(function)[1:]
    groups: dict[str, Any] = {
        each.name: each.annotation for each in declared if is_dataclass(each.annotation)
    }
    own = [
        part
        for each in declared
        for part in (_parameters(each.annotation) if each.name in groups else [each])
    ]
    context, *shared = (
        each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _parameters(global_options)
    )

    @wraps(function)
    def run(**arguments: Any) -> None:
        values = {each.name: arguments.pop(each.name) for each in shared}
        called = arguments.pop(context.name)
        options = absorbed(called, values)
        name = _words(called)
        for each, group in groups.items():
            arguments[each] = group(
                **{part.name: arguments.pop(part.name) for part in fields(group)}
            )
        out = Output(options.output, is_attended=not options.is_job)
        logged = logged_job(options, name, arguments.values())
        with logged, out.ending(), _exit_codes(out), _ending(options, out), ExitStack() as closing:
            out.save_to(options.result_file)
            function(Invocation(name, options, out, closing), **arguments)
            out.flush()

    parameters = [context, *(each.replace(kind=context.kind) for each in own), *shared]
    described: Any = run
    described.__signature__ = inspect.Signature(parameters)
    described.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


class Group(typer.Typer):
    """A group of commands. It accepts the global options, too."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name=name, help=text, no_args_is_help=True)
        self.callback()(global_options)

    def add(self, name: str | None = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
        return lambda function: self.command(name)(command(function))


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return [each.replace(annotation=_named(each.name, hints[each.name])) for each in parameters]


def _named(name: str, hint: Any) -> Any:
    """Return the annotation of a parameter. Flags have its name and no `--no-` form."""
    kind, details = (*get_args(hint), None, None)[:2]
    if kind is not bool or details is None or details.default is not ...:
        return hint
    info = copy(details)
    info.param_decls = (f"--{name.replace('_', '-')}",)
    return Annotated[bool, info]


def _words(context: typer.Context) -> str:
    words = []
    while context.parent is not None:
        words.append(context.info_name or "")
        context = cast("typer.Context", context.parent)
    return " ".join(reversed(words))


def _ending(options: Options, out: Output) -> AbstractContextManager[None]:
    """Exit shortly after Ctrl-C if the process runs only this command."""
    if not options.owns_process:
        return nullcontext()
    # Lazy import: --help does not need it.
    from sparklake.interrupts import ending_soon, hand_over_interrupts

    def say() -> None:
        out.fail(InterruptError())
        out.flush()

    hand_over_interrupts()
    return ending_soon(say)


@contextmanager
def _exit_codes(out: Output) -> Iterator[None]:
    """Map expected errors to exit codes. Unexpected errors keep their traceback."""
    try:
        with missing_extras():
            yield
    except SparklakeError as error:
        out.fail(error)
        raise typer.Exit(error.exit_code) from error
    except OutputClosedError as error:
        abandon_stdout()
        raise typer.Exit(0 if out.is_paged else READER_GONE) from error
    except KeyboardInterrupt as error:
        interrupted = InterruptError()
        out.fail(interrupted)
        raise typer.Exit(interrupted.exit_code) from error
