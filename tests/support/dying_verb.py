"""Verbs for crash tests, each in a child that may be killed before a step."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from campaigns.faults.forks import Order, serve
from campaigns.faults.table_writes import write
from sparklake import Lake, Once
from sparklake.verbs.tables.write_request import WriteMode
from tests.support.once_verbs import VERBS, Stage


def carry_out(lake: Lake, order: Order) -> None:
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
        branch.import_objects(order["source"], "imported/", replace=True)
    else:
        repository.merge(order["source"], order["branch"], order["strategy"])


if __name__ == "__main__":
    serve(carry_out)
