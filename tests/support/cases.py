"""Many cases of one test, without a test for each.

A test of pytest costs some milliseconds in each process of a run, and a line in each report; most
cases cost less.
"""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def for_each(names: str | tuple[str, ...], values: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test for each of the values, as `pytest.mark.parametrize` does, but as one test.

    It runs all of them and fails at the end, with every case that failed. They share the fixtures.
    """
    keys = (names,) if isinstance(names, str) else names
    cases = [_values_of(each, len(keys)) for each in values]

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failures = []
            for each in cases:
                try:
                    test(**fixtures, **dict(zip(keys, each, strict=True)))
                except (Exception, pytest.fail.Exception):  # noqa: BLE001
                    failures.append(f"--- {_title(each)}\n{traceback.format_exc()}")
            if failures:
                heading = f"{len(failures)} of {len(cases)} cases failed:"
                pytest.fail("\n".join([heading, *failures]), pytrace=False)

        assert cases, "there are no cases"
        signature = inspect.signature(test)
        parameters = [each for name, each in signature.parameters.items() if name not in keys]
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _values_of(value: Any, count: int) -> tuple[Any, ...]:
    if hasattr(value, "values") and hasattr(value, "marks"):  # pytest.param
        assert not value.marks, "a case cannot be marked"
        return tuple(value.values)
    return (value,) if count == 1 else tuple(value)


def _title(values: tuple[Any, ...]) -> str:
    return ", ".join(f"{each!r:.80}" for each in values)
