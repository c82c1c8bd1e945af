"""Every benchmark command still fits the engine's names."""

from __future__ import annotations

import importlib
import pkgutil

import benchmarks
from tests.support.cases import for_each

MODULES = sorted(each.name for each in pkgutil.iter_modules(benchmarks.__path__))
COMMANDS = {
    *(
        "billion",
        "bucket_listing",
        "call_counts",
        "check",
        "cluster_scale",
        "compare",
        "contention",
        "history",
        "iceberg_merges",
        "import_rate",
        "moves",
        "postgres_size",
        "read_planning",
        "row_merges",
        "s3",
        "s3_clients",
        "scale",
        "small_verbs",
        "spark_scale",
        "start",
    ),
    *("sweep", "thresholds", "tree_collection", "write_staging"),
}


@for_each("name", MODULES)
def test_every_benchmark_can_be_imported(name: str) -> None:
    module = importlib.import_module(f"benchmarks.{name}")
    assert module.__doc__
    assert hasattr(module, "main") == (name in COMMANDS)
