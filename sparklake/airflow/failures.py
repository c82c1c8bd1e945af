"""Conversion of sparklake's errors to Airflow's, permanent or retryable."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sparklake import errors
from sparklake.airflow.versions import AirflowException, AirflowFailException
from sparklake.errors import InterruptError, LostResultError, RaceLostError, SparklakeError

_RETRIED_ERRORS = (SparklakeError, RaceLostError, LostResultError, InterruptError)
RETRIED = frozenset(each.exit_code for each in _RETRIED_ERRORS)
"""The exit codes of retryable errors; all others require human action."""


def failure(name: str, code: int, message: str) -> Exception:
    """Return the Airflow error for a failed verb. AirflowFailException is not retried."""
    kind = AirflowException if code in RETRIED else AirflowFailException
    error: Exception = kind(f"sparklake {name} failed with exit code {code}: {message}")
    return error


def code_of_kind(kind: str) -> int:
    """Return the exit code of a kind."""
    codes = {
        each.kind: each.exit_code
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, SparklakeError)
    }
    return codes.get(kind, SparklakeError.exit_code)


def message_of(document: Any) -> str | None:
    """Return the message of an error document, else None."""
    is_error = isinstance(document, dict) and {"error", "kind"} <= document.keys()
    return str(document["error"]) if is_error else None


@contextmanager
def failing(name: str) -> Iterator[None]:
    """Convert sparklake's errors to Airflow's."""
    try:
        yield
    except SparklakeError as error:
        raise failure(name, error.exit_code, str(error)) from error
