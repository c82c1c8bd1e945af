"""A process that works on a branch concurrently with others, and reports its work.

Its argument is an order in JSON. It opens the lake, prints a line when it is ready, waits for a
line on its standard input, and ends with one line of JSON: the changes that were confirmed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.counting import noted_moves
from sparklake import Repository, SparklakeError
from sparklake._lightness import keep_pandas_out
from sparklake.testing.lakes import postgres_lake, stage_table


def commit_each(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Put an object and commit, repeatedly."""
    branch, done = repository.branch(order["branch"]), []
    for turn in range(order["turns"]):
        path = f"{order['name']}/{turn}"
        branch.put(path, path.encode())
        done.append([path, outcome(lambda path=path: branch.commit(path).id)])
    return {"commits": done}


def put_each(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Put, stage in bulk, and delete earlier objects; every successful call is confirmed."""
    branch = repository.branch(order["branch"])
    address = repository.stat(order["branch"], "base").address
    promised: dict[str, bool] = {}
    for turn in range(order["turns"]):
        path = f"{order['name']}/{turn}"
        if turn % 5 == 4:
            row = {"path": path, "size": 4, "address": address, "checksum": "c"}
            branch.stage(stage_table([row]))
        else:
            branch.put(path, b"body")
        promised[path] = True
        if turn % 3 == 2:
            earlier = f"{order['name']}/{turn - 1}"
            branch.delete(earlier)
            promised[earlier] = False
    return {"promised": promised}


def commit_all(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Commit the objects of others, repeatedly."""
    branch = repository.branch(order["branch"])

    def commit(turn: int) -> dict[str, str]:
        return outcome(lambda: branch.commit(f"turn {turn}").id)

    return {"commits": [commit(turn) for turn in range(order["turns"])]}


def merge_each(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Commit on an own branch and merge it, repeatedly."""
    own, merged = repository.create_branch(order["name"], order["branch"]), []
    for turn in range(order["turns"]):
        path = f"{order['name']}/{turn}"
        own.put(path, path.encode())
        own.commit(path)
        result = outcome(lambda: repository.merge(order["name"], order["branch"]).id)
        merged.append([path, result])
    return {"merges": merged}


def merge_prepared(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Merge existing branches one after the other; count the attempted moves."""
    names = [f"{order['name']}-{turn}" for turn in range(order["turns"])]
    merged = []
    with noted_moves() as moves:
        for name in names:
            before = len(moves)
            result = outcome(lambda name=name: repository.merge(name, order["branch"]).id)
            merged.append([name, result, len(moves) - before])
    return {"merges": merged}


def revert_prepared(repository: Repository, order: dict[str, Any]) -> dict[str, Any]:
    """Revert existing, tagged commits one after the other."""
    branch = repository.branch(order["branch"])
    names = [f"{order['name']}-{turn}" for turn in range(order["turns"])]
    return {"reverts": [outcome(lambda name=name: branch.revert(name)[0].id) for name in names]}


def outcome(verb: Callable[[], str]) -> dict[str, str]:
    try:
        return {"kind": "ok", "id": verb()}
    except SparklakeError as error:
        return {"kind": error.kind, "id": str(error)}


WORK = {
    each.__name__: each
    for each in (commit_each, put_each, commit_all, merge_each, merge_prepared, revert_prepared)
}


# Verbs are imported at their first call, so without this one racer would start before the others.
VERBS = ("commits", "merges.merge", "merges.replay", "objects.stage", "objects.upload")


def main() -> None:
    keep_pandas_out()
    for name in VERBS:
        import_module(f"sparklake.verbs.{name}")
    order = json.loads(sys.argv[1])
    with postgres_lake(order["dsn"]) as lake:
        repository = lake.repository(order["repository"])
        print("ready", flush=True)  # noqa: T201
        sys.stdin.readline()
        print(json.dumps(WORK[order["work"]](repository, order)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
