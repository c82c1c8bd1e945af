"""The user's own frames of an error, for notebooks."""

from __future__ import annotations

import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path

_HIDDEN = (
    str(Path(__file__).parent),
    *(sysconfig.get_path(each) for each in ("purelib", "stdlib")),
)
"""Folders of frames that are not shown: this package, others (such as tenacity), and Python's."""


def own_frames(error: BaseException) -> Iterator[str]:
    """Yield the user's own source lines behind an error."""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith(_HIDDEN) and frame.line:
            is_cell = "ipykernel_" in frame.filename or frame.filename.startswith("<ipython-input")
            place = "cell" if is_cell else Path(frame.filename).name
            yield f"{place}, line {frame.lineno}: {frame.line}"
