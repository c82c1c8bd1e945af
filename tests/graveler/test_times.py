"""Times at the limits of a record, and beyond them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from sparklake.graveler.times import (
    FIRST_SECOND,
    LAST_MICROSECOND,
    LAST_SECOND,
    SECOND,
    checked_microseconds,
    datetime_of,
    datetime_of_nanoseconds,
    is_storable,
    microsecond_of,
    shown_nanoseconds,
    text_of_second,
)

FIRST = datetime(1, 1, 1, tzinfo=timezone.utc)
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
LAST_OF_ALL = LAST.replace(microsecond=999_999)


@pytest.mark.parametrize(
    ("second", "storable", "displayed"),
    [
        (FIRST_SECOND - 1, False, FIRST),
        (FIRST_SECOND, True, FIRST),
        (0, True, datetime(1970, 1, 1, tzinfo=timezone.utc)),
        (LAST_SECOND, True, LAST),
        (LAST_SECOND + 1, False, LAST),
        (1_700_000_000_000, False, LAST),
        (-(1 << 63), False, FIRST),
    ],
)
def test_seconds_outside_the_limits_are_shown_as_the_nearest_limit(
    second: int, storable: bool, displayed: datetime
) -> None:
    assert is_storable(second * SECOND) is storable
    assert datetime_of(second) == displayed
    assert is_storable(checked_microseconds(second * SECOND) * 1000) is storable


def test_fractions_of_a_second_at_the_limits_are_storable() -> None:
    end = (LAST_SECOND + 1) * SECOND
    assert is_storable(end - 1)
    assert not is_storable(end)
    assert not is_storable(FIRST_SECOND * SECOND - 1)
    assert datetime_of_nanoseconds(end - 1) == datetime_of_nanoseconds(end) == LAST_OF_ALL
    assert shown_nanoseconds(end - 1) == LAST_MICROSECOND * 1000
    assert shown_nanoseconds(-1) == -1000


def test_years_have_four_digits() -> None:
    assert text_of_second(FIRST_SECOND) == "0001-01-01 00:00:00Z"
    assert text_of_second(1_700_000_000, "T") == "2023-11-14T22:13:20Z"
    assert text_of_second(1 << 62) == "9999-12-31 23:59:59Z"


def test_datetimes_are_exact_in_any_zone() -> None:
    assert microsecond_of(LAST_OF_ALL) == LAST_MICROSECOND
    east = timezone(timedelta(hours=14))
    assert microsecond_of(FIRST.replace(tzinfo=east)) == (FIRST_SECOND - 14 * 3600) * 1_000_000
