"""The extension of mkdocstrings that shows parameters.yaml as tables."""

from __future__ import annotations

from typing import Any

import griffe

from docs.website.parameters import with_arguments


class ParameterTables(griffe.Extension):
    """Adds the parameters to the docstrings of public functions."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Extend the docstring of a function that has one."""
        names = [each.name for each in func.parameters if each.name != "self"]
        if func.docstring is not None and not func.name.startswith("_"):
            func.docstring.value = with_arguments(func.docstring.value, func.path, names)
