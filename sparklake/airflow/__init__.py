"""Operators, a sensor, a task group and a connection type for Apache Airflow."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sparklake.extras import missing_extras

if TYPE_CHECKING:
    from sparklake.airflow.hook import SparklakeHook as SparklakeHook
    from sparklake.airflow.operator import SparklakeOperator as SparklakeOperator
    from sparklake.airflow.run_branch import RunBranch as RunBranch
    from sparklake.airflow.run_branch import branch_per_run as branch_per_run
    from sparklake.airflow.sensor import CommitSensor as CommitSensor
    from sparklake.airflow.submit import SparklakeSubmitOperator as SparklakeSubmitOperator

# Names are imported on demand: the Spark provider takes 0.5 s, and few DAG files need all names.
_MODULES = {
    "CommitSensor": "sparklake.airflow.sensor",
    "RunBranch": "sparklake.airflow.run_branch",
    "SparklakeHook": "sparklake.airflow.hook",
    "SparklakeOperator": "sparklake.airflow.operator",
    "SparklakeSubmitOperator": "sparklake.airflow.submit",
    "branch_per_run": "sparklake.airflow.run_branch",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with missing_extras():
        value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
