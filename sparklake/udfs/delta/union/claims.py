"""What the commits of two sides claim beyond files: progress and domains, by their names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from sparklake.udfs.delta.commits import DeltaCommit, NotUnitedError

_NAMED = {
    "txn": ("appId", "wrote for the same streaming application"),
    "domainMetadata": ("domain", "changed the same domain"),
}


def check_names(
    base: Sequence[DeltaCommit],
    source: Sequence[DeltaCommit],
    dest: Sequence[DeltaCommit],
    fresh: Sequence[DeltaCommit],
) -> None:
    """Raises NotUnitedError where a commit of source would set back what dest says by a name.

    Of one name the last commit counts. Dest may have commits of source that come after this one.
    """
    places: dict[str, float] = {each.origin: at for at, each in enumerate(source)}
    places.update((each.origin, -1) for each in base)
    for kind, (_, did) in _NAMED.items():
        there, coming = (_latest(each, kind, places) for each in (dest, fresh))
        late = [name for name, place in coming.items() if there.get(name, -1) > place]
        if late:
            raise NotUnitedError(f"both sides {did}, {min(late)!r}")


def _latest(
    commits: Iterable[DeltaCommit], kind: str, places: Mapping[str, float]
) -> dict[str, float]:
    """Returns where in source the latest is of what commits say by each name; else infinity."""
    found: dict[str, float] = {}
    for each in commits:
        place = places.get(each.origin, math.inf)
        for said in each.said(kind):
            name = str(said.get(_NAMED[kind][0]))
            found[name] = max(place, found.get(name, -1))
    return found
