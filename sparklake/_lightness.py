"""Keeps small commands and worker processes light."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType

_PANDAS = "pandas"


class _WithoutPandas(MetaPathFinder):
    """Says that pandas is not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def keep_pandas_out() -> None:
    """Settle for the rest of the process that Arrow has no pandas.

    Arrow looks for pandas when it makes its first array, and so loads it, which takes longer than
    all else that a small command does. Only what goes through Spark has a use for it.
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
