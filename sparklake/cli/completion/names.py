"""Completion of repositories, refs and paths, for parameters with a URI, REF, PATH or PREFIX."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from sparklake.uri import SCHEME

if TYPE_CHECKING:
    from sparklake.lake import Lake
    from sparklake.repository import Repository

_MAX_PATHS = 200
"""The maximum number of paths shown. A folder may have millions."""

_MORE = "..."
"""The end of a candidate that stands for all paths after the shown ones.

It also keeps the shell from adding what only the shown ones have in common.
"""

WORDS = "words"
"""The key of the context's object with the words before the one at the cursor."""

_OF_URI = frozenset({"REF", "PATH", "PREFIX"})


class Candidate(NamedTuple):
    """A possible value. Its fields have click's names."""

    value: str
    help: str | None = None
    type: str = "plain"


def complete_names(command: Any) -> None:
    get_params = command.get_params

    def get_completing_params(ctx: Any) -> Any:
        parameters = get_params(ctx)
        for each in parameters:
            if SCHEME in (each.metavar or "") or each.metavar in _OF_URI:
                vars(each).setdefault("shell_complete", _completion(each.metavar))
        return parameters

    command.get_params = get_completing_params


def _completion(metavar: str) -> Callable[[Any, str], list[Candidate]]:
    def shell_complete(ctx: Any, incomplete: str) -> list[Candidate]:
        # Not the parsed values: without a value of the last option, click's parser drops all.
        words = ctx.obj[WORDS]
        with _lake(words) as lake:
            if SCHEME in metavar:
                return list(_uris(lake, _Form(metavar), incomplete))
            uri = next(each for each in words if each.startswith(SCHEME))
            return list(_parts_of_uri(lake, metavar, uri, incomplete))

    return shell_complete


def _lake(words: Sequence[str]) -> Lake:
    """Return the lake of the command line. Its server must be running."""
    # Lazy imports: completion of commands and options needs no lake.
    from sparklake._lightness import keep_pandas_out
    from sparklake.lake import connect_running

    keep_pandas_out()
    return connect_running(_value(words, "--home"), _value(words, "--dsn"))


def _value(words: Sequence[str], option: str) -> str | None:
    values = [after for word, after in pairwise(words) if word == option]
    values += [each.partition("=")[2] for each in words if each.startswith(f"{option}=")]
    return values[-1] if values else None


class _Form:
    """The form of a URI: its parts and the optional ones."""

    def __init__(self, metavar: str) -> None:
        form = metavar.removesuffix("...")
        if form.startswith("["):
            form = form[1:-1]
        parts = form.removeprefix(SCHEME).split("/")
        self.names = [each.strip("[]") for each in parts]
        self._may_end = [each.endswith("[") for each in parts]

    def continued(self, depth: int, value: str, kind: str | None = None) -> Iterator[Candidate]:
        """Yield a URI with this many parts, complete or to be continued."""
        if depth == len(self.names) or self._may_end[depth - 1]:
            yield Candidate(value, kind)
        if depth < len(self.names):
            yield Candidate(f"{value}/", kind)


def _uris(lake: Lake, form: _Form, incomplete: str) -> Iterator[Candidate]:
    if SCHEME.startswith(incomplete):
        incomplete = SCHEME
    repository, *rest = incomplete.removeprefix(SCHEME).split("/", 2)
    if not incomplete.startswith(SCHEME) or len(rest) >= len(form.names):
        return
    if not rest:
        for each in lake.repositories():
            if each.name.startswith(repository):
                yield from form.continued(1, f"{SCHEME}{each.name}")
        return
    start = f"{SCHEME}{repository}/"
    opened = lake.repository(repository)
    if len(rest) == 1:
        for ref in _refs(opened, form.names[1], rest[0]):
            yield from form.continued(2, start + ref.value, ref.help)
        return
    for path in _paths(opened, *rest):
        yield Candidate(f"{start}{rest[0]}/{path.value}", path.help)


def _parts_of_uri(lake: Lake, metavar: str, uri: str, incomplete: str) -> Iterable[Candidate]:
    repository, *rest = uri.removeprefix(SCHEME).split("/", 2)
    opened = lake.repository(repository)
    if metavar == "REF":
        return _refs(opened, metavar, incomplete)
    return _paths(opened, rest[0], incomplete) if rest else ()


def _refs(repository: Repository, part: str, incomplete: str) -> Iterator[Candidate]:
    if part != "TAG":
        for branch in repository.branch_states():
            if branch.name.startswith(incomplete):
                yield Candidate(branch.name, "branch")
    if part in {"TAG", "REF", "SOURCE", "LEFT", "RIGHT", "A", "B"}:
        for tag in repository.tags():
            if tag.name.startswith(incomplete):
                yield Candidate(tag.name, "tag")


def _paths(repository: Repository, ref: str, incomplete: str) -> Iterator[Candidate]:
    entries = repository.folder(ref, incomplete)
    for each in islice(entries, _MAX_PATHS):
        yield Candidate(each.path)
    if next(entries, None) is not None:
        yield Candidate(incomplete + _MORE, f"more than {_MAX_PATHS}")
