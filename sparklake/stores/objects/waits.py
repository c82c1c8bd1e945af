"""Timeouts of requests to buckets, and the warning about long waits."""

from __future__ import annotations

import logging

from sparklake.config import BucketTimeouts, bucket_timeouts_here
from sparklake.stores.waits import Wait, Waits

SAY_SECONDS = 3.0
"""How long a request waits before a warning, in seconds."""

# Without a handler, Python writes warnings to stderr.
_LOG = logging.getLogger("sparklake.buckets")

_given = [BucketTimeouts()]


def use_timeouts(timeouts: BucketTimeouts) -> None:
    """Set the timeouts of this process. The environment takes precedence."""
    _given[0] = timeouts


def timeouts() -> BucketTimeouts:
    return bucket_timeouts_here(_given[0])


def _warn(wait: Wait[str]) -> None:
    _LOG.warning(
        "waiting for %s: no response for %.0f s, attempt %d", wait.what, wait.seconds, wait.attempt
    )


WAITS = Waits(SAY_SECONDS, _warn)
"""The requests of this process that wait, by their endpoint."""
