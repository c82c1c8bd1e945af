"""Draw a history as history.svg, in the way that `sparklake log --picture` does.

The commits are fixed, so that the picture changes only when the drawing does. Run
`python docs/pictures/history.py` after changing either.
"""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from sparklake.graveler.commits import Commit, new_commit
from sparklake.graveler.ids import EMPTY_META_RANGE
from sparklake.verbs.history.graph import HistoryGraph, history_graph

PICTURE = Path(__file__).with_suffix(".svg")


def commit(message: str, committer: str, day: int, hour: int, *parents: Commit) -> Commit:
    """Return a commit of July 2026."""
    moment = datetime(2026, 7, day, hour, tzinfo=timezone.utc)
    return new_commit(
        parents=parents,
        committer=committer,
        message=message,
        creation_date=int(moment.timestamp()),
        meta_range_id=EMPTY_META_RANGE,
    )


def graph() -> HistoryGraph:
    """Return a history of two branches: a fix that waits for a check, and a backfill."""
    imported = commit("Import the orders of June, 1,204,518 objects", "ann", 1, 8)
    first_night = commit("Load the orders of 1 July", "airflow", 2, 2, imported)
    fix = commit("Fix the tax of the orders in Berlin", "joe", 2, 10, first_night)
    second_night = commit("Load the orders of 2 July", "airflow", 3, 2, first_night)
    checked = commit("Add the missing orders of 30 June", "joe", 3, 11, fix)
    backfill = commit("Fill in the customer numbers of 2025", "eva", 3, 15, second_night)
    fixed = commit("Merge 'fix-tax' into 'main'", "joe", 3, 16, second_night, checked)
    third_night = commit("Load the orders of 3 July", "airflow", 4, 2, fixed)
    names = {
        third_night.id: ["main"],
        backfill.id: ["backfill-2025"],
        checked.id: ["fix-tax"],
        imported.id: ["tag: june"],
    }
    log = [third_night, fixed, backfill, checked, second_night, fix, first_night, imported]
    return history_graph(log, names)


def main() -> None:
    """Write the picture."""
    graph().save(PICTURE)


if __name__ == "__main__":
    main()
