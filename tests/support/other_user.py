"""A process of a user with few permissions. It tries a verb and prints the result as JSON.

Its arguments are a user id, a repository's namespace and a verb. Permissions are dropped after the
imports, so that the interpreter may be in a private folder.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyarrow.compute  # noqa: F401 - Arrow imports it when it sorts, too late to find it

from sparklake import Lake, SparklakeError
from sparklake._lightness import keep_pandas_out
from sparklake.graveler.commits import first_commit
from sparklake.graveler.ports import RepositoryInfo
from sparklake.testing.lakes import memory_lake, stage_table
from sparklake.testing.memory import MemoryRefStore


def a_lake(namespace: str) -> Lake:
    """Open a lake with a repository, whatever the permissions of its namespace."""
    lake = memory_lake()
    store = lake._ref_store
    assert isinstance(store, MemoryRefStore)
    info = RepositoryInfo("lake", "uid", f"file://{namespace}", "main", 4, 0)
    store.create_repository(info, first_commit(0), "tester")
    return lake


def attempt(namespace: str, verb: str) -> None:
    if verb == "create":
        memory_lake().create_repository("lake", namespace)
        return
    repository = a_lake(namespace).repository("lake")
    branch = repository.branch("main")
    if verb == "put":
        branch.put("k", b"v")
    elif verb == "put-file":
        branch.put_file("k", Path(namespace).parent / "source" / "secret")
    elif verb == "collect":
        repository.collect_garbage()
    elif verb == "look":
        repository.collect_garbage(dry_run=True)
    elif verb == "dump":
        repository.dump_refs()
    elif verb == "import":
        branch.import_objects(str(Path(namespace).parent / "source"), replace=True)
    else:
        row = {"path": "k", "size": 1, "address": f"file://{namespace}/data/x", "checksum": "c"}
        branch.stage(stage_table([row]))


def main() -> None:
    keep_pandas_out()
    user, namespace, verb = sys.argv[1:]
    os.setgroups([])
    os.setgid(int(user))
    os.setuid(int(user))
    try:
        attempt(namespace, verb)
    except SparklakeError as error:
        answer = {"kind": error.kind, "words": str(error), "exit_code": error.exit_code}
    else:
        answer = {"kind": None, "words": "", "exit_code": 0}
    print(json.dumps(answer))  # noqa: T201


if __name__ == "__main__":
    main()
