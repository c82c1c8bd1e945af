"""Default periods that the public verbs show, in a module that imports no verb."""

from __future__ import annotations

from datetime import timedelta

KEPT_FOR = timedelta(days=7)
"""The time for which a failed transaction's branch is kept from pruning, from its start."""

GRACE = timedelta(hours=6)
"""The default minimum age of an object that a collection deletes."""
