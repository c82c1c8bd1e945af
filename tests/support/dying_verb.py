"""A process whose children each run one verb, and die by SIGKILL before one of its steps.

It reads orders from its standard input, each a line of JSON. It answers each with the number of
steps that the child took, and whether it died. A step is a call of the object store, a statement of
the ref store (including BEGIN and COMMIT), or a call of the file system by the object store.
Children are forked, because importing everything takes longer than a verb.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from sparklake import Lake, Once
from sparklake._lightness import keep_pandas_out
from sparklake.stores.objects.local import LocalStore
from sparklake.verbs.tables.write_request import WriteMode
from tests.support.lakes import postgres_lake
from tests.support.once_verbs import VERBS, Stage
from tests.support.table_writes import write

FILE_SYSTEM = ("link", "fsync", "open")
OBJECT_STORE = (
    "get",
    "get_many",
    "get_to_file",
    "put_if_absent",
    "put_many_if_absent",
    "put_files_if_absent",
    "find",
    "checksum",
    "list",
    "delete",
)


def carry_out(lake: Lake, order: dict[str, Any]) -> None:
    if order["verb"] == "create":
        lake.create_repository(order["repository"], order["namespace"])
        return
    repository = lake.repository(order["repository"])
    branch = repository.branch(order["branch"])
    if order["verb"] == "commit":
        branch.commit("changes")
    elif order["verb"] == "collect":
        repository.collect_garbage(grace=timedelta())
    elif order["verb"] == "once":
        stage = Stage(repository, branch, Path(order["folder"]))
        VERBS[order["name"]].act(stage, Once(order["key"]))
    elif order["verb"] == "put":
        branch.put(order["path"], order["body"].encode())
    elif order["verb"] == "write":
        write(repository, branch.name, order["path"], order["files"], WriteMode.OVERWRITE)
    elif order["verb"] == "import":
        branch.import_objects(order["source"], "imported/")
    else:
        repository.merge(order["source"], order["branch"], order["strategy"])


def mortal(call: Callable[..., Any], step: Callable[[], None]) -> Callable[..., Any]:
    def calling(*arguments: Any, **options: Any) -> Any:
        step()
        return call(*arguments, **options)

    return calling


def make_mortal(last: int, report: Callable[[int], None]) -> None:
    """Make this process die instead of taking its step number `last`."""
    numbers = count(1)
    one_at_a_time = threading.Lock()

    def step() -> None:
        # Threads must not report out of turn, nor take a step in the moment of death.
        with one_at_a_time:
            number = next(numbers)
            report(number)
            if number == last:
                os.kill(os.getpid(), signal.SIGKILL)
                signal.pause()

    for owner, names in ((LocalStore, OBJECT_STORE), (os, FILE_SYSTEM)):
        for name in names:
            setattr(owner, name, mortal(getattr(owner, name), step))
    for name in ("execute", "commit", "rollback"):
        setattr(psycopg.Connection, name, mortal(getattr(psycopg.Connection, name), step))


def child(order: dict[str, Any], answers: int) -> None:
    with postgres_lake(order["dsn"]) as lake:
        make_mortal(order["last"], lambda number: os.truncate(answers, number))
        carry_out(lake, order)


def main() -> None:
    keep_pandas_out()
    for line in sys.stdin:
        order = json.loads(line)
        # The length of this file is the number of steps taken: it outlives the child.
        answers = os.memfd_create("steps")
        pid = os.fork()
        if pid == 0:
            try:
                child(order, answers)
            except BaseException as error:  # noqa: BLE001
                print(repr(error), file=sys.stderr, flush=True)  # noqa: T201
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        steps = os.fstat(answers).st_size
        os.close(answers)
        died = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        failed = not died and status != 0
        answer = {"steps": steps, "died": died, "failed": failed}
        print(json.dumps(answer), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
