"""Measures that keep small commands and worker processes light."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

_PANDAS = "pandas"


class _WithoutPandas(MetaPathFinder):
    """An import finder for which pandas is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def keep_pandas_out() -> None:
    """Make Arrow work without pandas for the rest of the process.

    Arrow imports pandas with its first array. This takes longer than everything else in a small
    command. Only code that uses Spark needs pandas.
    """
    if _PANDAS in sys.modules:
        return
    import pyarrow as pa

    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([])
    finally:
        sys.meta_path.remove(finder)
