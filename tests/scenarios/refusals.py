"""Notes which verbs of the public API have refused something."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import wraps
from typing import Any
from unittest import mock

from sparklake import Branch, Lake, Repository, SparklakeError
from sparklake.verbs.refs.settings import LiveSettings

_NOUNS = (Lake, Repository, Branch, LiveSettings)


def _verbs() -> dict[str, tuple[type, str, Callable[..., Any]]]:
    return {
        f"{noun.__name__}.{name}": (noun, name, verb)
        for noun in _NOUNS
        for name, verb in inspect.getmembers(noun, inspect.isfunction)
        if not name.startswith("_")
    }


@contextmanager
def noted_refusals() -> Iterator[set[str]]:
    """Yield the names of the verbs that raise an error of ours meanwhile."""
    refusals: set[str] = set()

    def noting(name: str, verb: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(verb)
        def noted(*arguments: Any, **words: Any) -> Any:
            try:
                found = verb(*arguments, **words)
            except SparklakeError:
                refusals.add(name)
                raise
            if isinstance(found, AbstractContextManager):
                return entered(name, found)
            return listened(name, found) if inspect.isgenerator(found) else found

        return noted

    def listened(name: str, rows: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from rows
        except SparklakeError:
            refusals.add(name)
            raise

    @contextmanager
    def entered(name: str, found: AbstractContextManager[Any]) -> Iterator[Any]:
        try:
            with found as yielded:
                yield yielded
        except SparklakeError:
            refusals.add(name)
            raise

    with ExitStack() as stack:
        for name, (noun, method, verb) in _verbs().items():
            stack.enter_context(mock.patch.object(noun, method, noting(name, verb)))
        yield refusals


def never_refused(refusals: set[str]) -> set[str]:
    """Return the other verbs."""
    return _verbs().keys() - refusals
