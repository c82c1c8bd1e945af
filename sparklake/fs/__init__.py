"""A file system for pandas, polars, duckdb, pyarrow and dask: lakefs://REPO/REF/KEY."""

from __future__ import annotations

from importlib.util import find_spec

from sparklake.errors import MissingDependencyError

if find_spec("fsspec") is None:
    raise MissingDependencyError(
        "lakefs:// needs fsspec, which is not installed: run pip install 'sparklake[fsspec]'."
    )

from sparklake.fs.filesystem import SparklakeFileSystem

__all__ = ["SparklakeFileSystem"]
