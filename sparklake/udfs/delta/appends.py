"""Whether a commit holds after others that its writer has not seen."""

from __future__ import annotations

from collections.abc import Sequence

from sparklake.udfs.delta.actions import Action, said_of

_OF_APPENDS = {"commitInfo", "add", "txn"}
_OF_SHAPE = ("metaData", "protocol")


def is_blind_append(actions: Sequence[Action]) -> bool:
    """Tells whether an entry only adds rows, whatever was in the table before."""
    kinds = {kind for each in actions for kind, said in each.items() if said is not None}
    infos = list(said_of(actions, "commitInfo"))
    tracked = any("baseRowId" in said for said in said_of(actions, "add"))
    return (
        kinds <= _OF_APPENDS
        and not tracked
        and len(infos) == 1
        and infos[0].get("isBlindAppend") is True
        and "inCommitTimestamp" not in infos[0]
    )


def lets_append(theirs: Sequence[Action], ours: Sequence[Action]) -> bool:
    """Tells whether a blind append holds after an entry that it has not seen."""
    shaped = any(True for _ in said_of(theirs, *_OF_SHAPE))
    ids = {said["appId"] for said in said_of(ours, "txn")}
    return not shaped and ids.isdisjoint(said["appId"] for said in said_of(theirs, "txn"))
