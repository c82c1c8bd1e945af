"""A writer process of a race: python -m campaigns.histories.racer DSN.

It reads orders from its standard input, each a line of JSON, and answers each with the number of
its verbs by name and result. It records its requests in a journal.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from campaigns.faults.forks import import_verbs
from campaigns.histories.checker import Recorder, open_journal
from campaigns.simulator.simulation import EVERYTHING, Actor
from sparklake import Lake, SparklakeError
from sparklake._lightness import keep_pandas_out
from sparklake.testing.lakes import postgres_lake

_COLLECTIONS = 0.3


def race(lake: Lake, order: dict[str, Any]) -> Counter[str]:
    """Take random steps on a repository; return their numbers."""
    repository, verbs = lake.repository(order["name"]), Counter[str]()
    chance = Random(order["seed"])
    with open_journal(Path(order["journal"])) as sink:
        recorder = Recorder(order["writer"], sink)
        actor = Actor(repository, order["writer"], chance, recorder, verbs, EVERYTHING)
        for _ in range(order["turns"]):
            actor()
            if order["collects"] and chance.random() < _COLLECTIONS:
                with suppress(SparklakeError):
                    repository.collect_garbage(grace=timedelta())
                    verbs["collect_garbage"] += 1
    return verbs


def main() -> None:
    """Race until the standard input ends."""
    keep_pandas_out()
    import_verbs()
    with postgres_lake(sys.argv[1]) as lake:
        print("ready", flush=True)
        for line in sys.stdin:
            print(json.dumps(race(lake, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
