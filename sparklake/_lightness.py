"""Startup-time optimizations for small commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_PANDAS = "pandas"
_ARROW = "pyarrow"


class _WithoutPandas(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> None:
        if fullname == _PANDAS:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


class _ArrowAlone(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _ARROW:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_alone(module: ModuleType) -> None:
                load(module)
                _look_for_pandas_in_vain(module)

            setattr(spec.loader, "exec_module", load_alone)  # noqa: B010  (mypy: it is a method)
        return spec


def keep_pandas_out() -> None:
    """Keep Arrow from importing pandas, which dominates a small command."""
    if _PANDAS in sys.modules:
        return
    if _ARROW in sys.modules:
        _look_for_pandas_in_vain(sys.modules[_ARROW])
    elif not any(isinstance(each, _ArrowAlone) for each in sys.meta_path):
        sys.meta_path.insert(0, _ArrowAlone())


def _look_for_pandas_in_vain(arrow: ModuleType) -> None:
    """Make Arrow's only lookup of pandas fail."""
    finder = _WithoutPandas()
    sys.meta_path.insert(0, finder)
    try:
        arrow.array([])
    finally:
        sys.meta_path.remove(finder)
