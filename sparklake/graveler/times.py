"""Times. Years outside 1 to 9999 are stored unchanged and shown as the nearest one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

FIRST_SECOND = -62_135_596_800  # 0001-01-01T00:00:00Z.
LAST_SECOND = 253_402_300_799  # 9999-12-31T23:59:59Z.

SECOND = 1_000_000_000  # Nanoseconds per second.
MICROSECOND = 1_000  # Nanoseconds per microsecond.
SECOND_MICROS = 1_000_000

FIRST_MICROSECOND = FIRST_SECOND * SECOND_MICROS
LAST_MICROSECOND = (LAST_SECOND + 1) * SECOND_MICROS - 1

OUT_OF_YEARS = "outside the years 1 to 9999"

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_A_MICROSECOND = timedelta(microseconds=1)


def is_storable(nanoseconds: int) -> bool:
    return FIRST_SECOND <= nanoseconds // SECOND <= LAST_SECOND


def shown_microseconds(nanoseconds: int) -> int:
    """Return a time in unix microseconds, within the years 1 to 9999."""
    return min(max(nanoseconds // MICROSECOND, FIRST_MICROSECOND), LAST_MICROSECOND)


def shown_nanoseconds(nanoseconds: int) -> int:
    """Return unix nanoseconds in whole microseconds, within the years 1 to 9999."""
    return shown_microseconds(nanoseconds) * MICROSECOND


def checked_microseconds(nanoseconds: int) -> int:
    """Return unix microseconds in 64 bits. Years outside 1 to 9999 stay outside."""
    micros = nanoseconds // MICROSECOND
    return min(max(micros, FIRST_MICROSECOND - 1), LAST_MICROSECOND + 1)


def datetime_of(seconds: int) -> datetime:
    """Return unix seconds as a datetime in UTC, within the years 1 to 9999."""
    return _EPOCH + timedelta(seconds=min(max(seconds, FIRST_SECOND), LAST_SECOND))


def datetime_of_nanoseconds(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=shown_microseconds(nanoseconds))


def text_of_second(seconds: int, separator: str = " ") -> str:
    """Return unix seconds as ISO 8601 in UTC, within the years 1 to 9999."""
    # Unlike strftime, isoformat writes four digits for every year.
    return f"{datetime_of(seconds).replace(tzinfo=None).isoformat(separator, 'seconds')}Z"


def microsecond_of(moment: datetime) -> int:
    """Return a timezone-aware datetime in unix microseconds."""
    return (moment - _EPOCH) // _A_MICROSECOND
