"""The log of a ref."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from itertools import dropwhile, islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from sparklake.errors import InvalidInputError, RefNotFoundError
from sparklake.graveler.commits import COMMITS_AT_ONCE, Commit, commits_html
from sparklake.graveler.ids import CommitId
from sparklake.graveler.times import SECOND_MICROS, microsecond_of
from sparklake.verbs.base.commit_graph import Walk
from sparklake.verbs.base.context import Context
from sparklake.verbs.base.resolve import get_commit

# Lazy imports: numpy and Arrow take 0.25 s, which a log as text does not need.
if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from sparklake.graveler.planning.change_summary import SearchTarget

Place: TypeAlias = tuple[int, int, CommitId]
"""The position of a commit in every log: by descending generation, then date, then id."""


_FIRST_MARKED = 64

CLOCKS_DIFFER = 24 * 60 * 60
"""The clock skew, in seconds, that `since` tolerates between an ancestor and its descendants."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The limits and filters of a log.

    The log starts after the ref `after`, ends with the ref `stop_at`, and stops at commits older
    than `since` by more than CLOCKS_DIFFER. With `path` or `prefix`, it contains the commits that
    differ there from each parent, and follows only the first equal parent of a merge. `after` and
    `stop_at` are then positions in the order, because their commits may not be visited.

    `author` and `grep` are regular expressions for the committer and the message, without regard to
    case. `metadata` has required values by key; None is any value.
    """

    limit: int | None = None
    after: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    stop_at: str | None = None
    first_parent: bool = False
    no_merges: bool = False
    path: str | None = None
    prefix: str | None = None
    author: str | None = None
    grep: str | None = None
    metadata: Mapping[str, str | None] | None = None


class _Bounds(NamedTuple):
    """The start of a log, its last commit, and the commit before its first."""

    start: Commit
    stop_at: Commit | None
    after: Commit | None


@dataclass(frozen=True, slots=True)
class Log:
    """The commits of a ref, resolved once, in log order. Iteration streams them."""

    _context: Context
    _ref: str
    _options: LogOptions
    _bounds: _Bounds
    _target: SearchTarget | None

    def __iter__(self) -> Iterator[Commit]:
        # A commit has whole seconds: none before `since` and none after `until` may be included.
        options, earliest = self._options, _second(self._options.since, SECOND_MICROS - 1)
        commits = _walk(
            self._context,
            self._bounds.start,
            earliest,
            self._target,
            first_parent=options.first_parent,
        )
        is_whole = options.since is None and self._target is None
        if options.stop_at is not None and self._bounds.stop_at is not None:
            absent = _absent(self._ref, options.stop_at) if is_whole else None
            commits = _up_to(commits, self._bounds.stop_at, absent)
        if options.after is not None and self._bounds.after is not None:
            absent = _absent(self._ref, options.after) if is_whole else None
            commits = _behind(commits, self._bounds.after, absent)
        if earliest is not None:
            commits = (each for each in commits if each.creation_date >= earliest)
        latest = _second(options.until)
        if latest is not None:
            commits = (each for each in commits if each.creation_date <= latest)
        if options.no_merges:
            commits = (each for each in commits if len(each.parents) < 2)
        return islice(_matching(commits, options), options.limit)

    def __repr__(self) -> str:
        return f"Log({self._ref}, at {self._bounds.start.id[:12]})"

    def _repr_html_(self) -> str:
        return commits_html(f"log of {self._ref}", self)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream Arrow batches of LOG_SCHEMA."""
        from sparklake.verbs.history.log_rows import commit_batches

        return commit_batches(self.marked())

    def to_arrow(self) -> pa.Table:
        """Return all commits as one Arrow table of LOG_SCHEMA, in memory."""
        import pyarrow as pa

        from sparklake.verbs.history.log_rows import LOG_SCHEMA

        return pa.Table.from_batches(self.batches(), LOG_SCHEMA)

    def to_df(self) -> DataFrame:
        """Return the commits as a Spark DataFrame with ordered partitions."""
        from sparklake.engine.spark import shipped
        from sparklake.verbs.history.log_rows import LOG_SCHEMA

        return shipped(self._context.runners.on_spark(), self.batches(), LOG_SCHEMA)

    def marked(self) -> Iterator[tuple[Commit, bool]]:
        """Yield each commit, and whether it is expired."""
        rest, size = iter(self), _FIRST_MARKED
        while some := list(islice(rest, size)):
            expired = self._context.refs.commits.expired([each.id for each in some])
            yield from ((each, each.id in expired) for each in some)
            size = min(2 * size, COMMITS_AT_ONCE)


def log(context: Context, ref: str, options: LogOptions) -> Log:
    """Return the log of a ref. A ref outside of it raises RefNotFoundError at its position."""
    _check(options)
    start = get_commit(context, ref)
    stop_at, after = (
        None if text is None else get_commit(context, text)
        for text in (options.stop_at, options.after)
    )
    return Log(context, ref, options, _Bounds(start, stop_at, after), _find_target(options))


def _find_target(options: LogOptions) -> SearchTarget | None:
    if options.path is None and options.prefix is None:
        return None
    from sparklake.verbs.history.path_changes import target_of

    return target_of(options.path, options.prefix)


def _second(moment: datetime | None, slack: int = 0) -> int | None:
    """Return the last whole second at most `slack` microseconds after a time."""
    return None if moment is None else (microsecond_of(moment) + slack) // SECOND_MICROS


def _matching(commits: Iterable[Commit], options: LogOptions) -> Iterator[Commit]:
    """Yield the commits with the committer, message and metadata of the options."""
    author, message = _pattern("author", options.author), _pattern("grep", options.grep)
    required = (options.metadata or {}).items()
    for each in commits:
        if author.search(each.committer) and message.search(each.message):
            metadata = each.metadata
            if all(key in metadata and value in (None, metadata[key]) for key, value in required):
                yield each


def _pattern(name: str, text: str | None) -> re.Pattern[str]:
    try:
        return re.compile(text or "", re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidInputError(
            f"{name} {text!r} is not a regular expression ({error}): put a \\ before each of "
            ".*+?()[]{}|^$ that is text"
        ) from None


def _check(options: LogOptions) -> None:
    _pattern("author", options.author)
    _pattern("grep", options.grep)
    if options.limit is not None and not 1 <= options.limit <= sys.maxsize:
        raise InvalidInputError(
            f"a log of {options.limit} commits is invalid: choose 1 to {sys.maxsize}"
        )
    for name, moment in (("since", options.since), ("until", options.until)):
        if moment is not None and moment.utcoffset() is None:
            raise InvalidInputError(f"{name} {moment} has no time zone: add one, such as UTC")
    if options.since is not None and options.until is not None and options.since > options.until:
        raise InvalidInputError(
            f"no commit can be since {options.since} and until {options.until}: swap the two"
        )


def log_position(commit: Commit) -> Place:
    """Return the position of a commit in every log."""
    return -commit.generation, -commit.creation_date, commit.id


def _walk(
    context: Context,
    start: Commit,
    earliest: int | None,
    target: SearchTarget | None,
    *,
    first_parent: bool,
) -> Iterator[Commit]:
    """Yield a commit and its ancestors, or those with changes of a target."""
    walk, queue = Walk(context.graph), [log_position(start)]
    changes = None
    if target is not None:
        from sparklake.verbs.history.path_changes import ChangeTest

        changes = ChangeTest(context, walk, target)
    visited: set[CommitId] = {start.id}
    while queue:
        each = walk.commit(heappop(queue)[2])
        parents = list(walk.parents(each.id)[: 1 if first_parent else None])
        origin = None if changes is None else changes.origin(each, parents)
        if origin is None:
            yield each
        if earliest is not None and each.creation_date < earliest - CLOCKS_DIFFER:
            continue
        for parent_id in parents if origin is None else [origin] if parents else ():
            if parent_id not in visited:
                visited.add(parent_id)
                heappush(queue, log_position(walk.commit(parent_id)))


def _up_to(
    commits: Iterable[Commit], last: Commit, absent: RefNotFoundError | None
) -> Iterator[Commit]:
    for each in commits:
        if log_position(each) > log_position(last):
            break
        yield each
        if each.id == last.id:
            return
    if absent is not None:
        raise absent


def _behind(
    commits: Iterable[Commit], first: Commit, absent: RefNotFoundError | None
) -> Iterator[Commit]:
    rest = dropwhile(lambda each: log_position(each) < log_position(first), commits)
    match = next(rest, None)
    if match is None or match.id != first.id:
        if absent is not None:
            raise absent
        yield from filter(None, [match])
    yield from rest


def _absent(ref: str, text: str) -> RefNotFoundError:
    return RefNotFoundError(f"the log of {ref!r} does not contain {text!r}: choose a commit in it")
