"""The log of a job: one line at the start and one at the end."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import typer

from sparklake.cli.options import Options
from sparklake.uri import SCHEME
from sparklake.visible import visible_line

_LOG = logging.getLogger("sparklake.jobs")
# The form of log4j2.properties, so that all lines of a driver's log look alike.
_LINES = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%y/%m/%d %H:%M:%S")


@contextmanager
def logged_job(options: Options, command: str, arguments: Iterable[object]) -> Iterator[None]:
    """Log the start and end of a job, with its URIs only: other arguments may be secret."""
    if not options.is_job:
        yield
        return
    uris = (each for each in arguments if isinstance(each, str) and each.startswith(SCHEME))
    name = visible_line(" ".join([command, *uris]))
    start = time.monotonic()
    code = "1 (unexpected error)"
    with _on_stderr():
        _LOG.info("%s: started", name)
        try:
            yield
            code = "0"
        except typer.Exit as end:
            code = str(end.exit_code)
            raise
        finally:
            _LOG.info("%s: ended after %.1f s, exit code %s", name, time.monotonic() - start, code)


@contextmanager
def _on_stderr() -> Iterator[None]:
    if _LOG.handlers:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LINES)
    before = _LOG.level, _LOG.propagate
    _LOG.addHandler(handler)
    _LOG.setLevel(logging.INFO)
    # The root logger may print these lines again.
    _LOG.propagate = False
    try:
        yield
    finally:
        _LOG.removeHandler(handler)
        level, _LOG.propagate = before
        _LOG.setLevel(level)
