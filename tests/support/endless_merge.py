"""A merge command, or its job under spark-submit, with endless tasks.

Arguments: a folder where tasks write their process ids, `command` or `job`, and the rest for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from sparklake.cli.main import main as command
from sparklake.graveler.planning.path_filter import PathFilter
from sparklake.jobs.run import main as job
from sparklake.rows.settings import Workspace
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.write_ranges import merge_body
from sparklake.verbs.merges import three_way

if TYPE_CHECKING:
    import pyarrow as pa

HOURS = 3600


def endless_body(
    marks: str,
    workspace: Workspace,
    resolution: Resolution,
    batches: Iterable[pa.RecordBatch],
    path_filter: PathFilter,
) -> Iterator[pa.RecordBatch]:
    """Write the ranges, and then never end."""
    results = list(merge_body(workspace, resolution, batches, path_filter))
    Path(marks, str(os.getpid())).touch()
    time.sleep(HOURS)
    yield from results


if __name__ == "__main__":
    marks, kind, *words = sys.argv[1:]
    vars(three_way)["merge_body"] = partial(endless_body, marks)
    sys.argv[1:] = words
    sys.exit(command() if kind == "command" else job())
