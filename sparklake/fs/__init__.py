"""Lakes as a file system for pandas, polars, duckdb, pyarrow and dask: lakefs://REPO/REF/KEY."""

from __future__ import annotations

from sparklake.fs.filesystem import SparklakeFileSystem

__all__ = ["SparklakeFileSystem"]
