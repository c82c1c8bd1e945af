"""An error of a task, from what Python prints of it; no JVM is started."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import pytest

from sparklake import errors
from sparklake.engine.spark import _find_raised, reported
from sparklake.errors import SparklakeError
from sparklake.visible import visible_line
from tests.support.cases import for_each

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGES = {
    "plain": "There is no object /data/x: restore it.",
    "empty": "",
    "quoted": """a "quoted" 'text' with a \\ in it""",
    "a number": "12",
    "other scripts": "das Stück 'naïve/日本.csv' is gone",
    "no Unicode": "the name \udce9 cannot be printed",
    "two lines": "first line\nsecond line\r\n\u2028third",
    "looks like another": "x\nsparklake.errors.InvalidKeyError: said the other",
}
KINDS = sorted(
    (
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, SparklakeError)
    ),
    key=lambda each: each.__name__,
)


def failing_body(
    kind: type[SparklakeError], arguments: Sequence[object], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    yield from batches
    try:
        raise errors.CorruptFileError("this is only the cause")
    except errors.CorruptFileError as error:
        raise kind(*arguments) from error


def report_of(kind: type[SparklakeError], *arguments: object) -> str:
    """Return what the driver is told of a body that fails."""
    with pytest.raises(SparklakeError) as raised:
        list(reported(partial(failing_body, kind, arguments), ()))
    printed = "".join(traceback.format_exception(raised.value))
    assert "in failing_body" in printed, "it says where it happened"
    return f"Lost task 1.0: Traceback\n{printed} SQLSTATE: 38000\n\tat java.base/Thread.run"


@for_each("name", MESSAGES)
def test_a_message_is_what_it_was(name: str) -> None:
    found = _find_raised(report_of(errors.MissingFileError, MESSAGES[name]))
    assert type(found) is errors.MissingFileError
    assert str(found) == visible_line(MESSAGES[name])


@for_each("kind", KINDS)
def test_every_class_is_found_again(kind: type[SparklakeError]) -> None:
    found = _find_raised(report_of(kind, "why"))
    assert type(found) is kind
    assert str(found) == "why"


@pytest.mark.parametrize(
    ("kind", "details"),
    [
        (errors.ExpiredError, ["0f" * 32]),
        (errors.PurgedError, ["id", "Zoë", 1_700_000_000]),
        (errors.TransactionError, ["kept"]),
        (errors.HookFailedError, ["run"]),
        (errors.AddressConflictError, ["a/ü", "s3://bucket/a"]),
    ],
)
def test_what_else_an_error_says_comes_with_it(
    kind: type[SparklakeError], details: list[object]
) -> None:
    found = _find_raised(report_of(kind, "why", *details))
    assert found is not None
    assert (type(found), vars(found)) == (kind, vars(kind("why", *details)))


def test_of_what_is_long_or_no_text_the_message_comes() -> None:
    found = _find_raised(report_of(errors.UnsupportedNamesError, "why", [("a", "b")], 1))
    assert type(found) is errors.UnsupportedNamesError
    assert (str(found), found.objects) == ("why", [])


@pytest.mark.timeout(20)
def test_an_error_that_is_its_own_cause_is_reported() -> None:
    def body(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        cause = OSError("why")
        cause.__cause__ = cause
        raise errors.StoreError("the disk") from cause

    with pytest.raises(errors.StoreError, match="the disk"):
        list(reported(body, ()))


def test_what_spark_has_cut_short_is_kept_as_it_is() -> None:
    found = _find_raised('sparklake.errors.StoreError: ["the disk of')
    assert type(found) is errors.StoreError
    assert str(found) == '["the disk of'


def test_what_is_said_at_the_end_is_said_at_the_head_too() -> None:
    found = _find_raised(report_of(errors.MissingFileError, MESSAGES["two lines"])[:200])
    assert type(found) is errors.MissingFileError
    assert str(found) == visible_line(MESSAGES["two lines"])


@pytest.mark.parametrize(
    "report", ["", "ValueError: x", "sparklake.errors.UnheardOfError: x", "sparklake.errors.Error"]
)
def test_what_is_not_ours_is_not_found(report: str) -> None:
    assert _find_raised(report) is None
