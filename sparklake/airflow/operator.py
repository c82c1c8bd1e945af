"""Verbs in the task's process, without a JVM."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparklake.airflow.failures import failing, failure, message_of
from sparklake.airflow.hook import SparklakeHook
from sparklake.airflow.names import DEFAULT_CONNECTION
from sparklake.airflow.once_keys import with_once
from sparklake.airflow.versions import BaseOperator
from sparklake.choices import Engine
from sparklake.uri import SCHEME


class SparklakeOperator(BaseOperator):
    """Run a verb in the task's process; return its result document as XCom.

    Args:
        verb: The words of the command, such as `merge` or `branch create` (templated).
        arguments: The arguments of the command, as on the command line (templated).
        once: True derives the idempotency key from the DAG, the task, the logical date and the map
            index, if the verb takes a key. A string is the key (templated). False passes none.
        sparklake_conn_id: The connection of the lake; None uses the worker's environment.
    """

    template_fields: Sequence[str] = ("verb", "arguments", "once", "sparklake_conn_id")
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        verb: str,
        arguments: Sequence[str] = (),
        once: str | bool = True,
        sparklake_conn_id: str | None = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.verb = verb
        self.arguments = list(arguments)
        self.once = once
        self.sparklake_conn_id = sparklake_conn_id

    def execute(self, context: Any) -> Any:
        """Run the verb; return its result. Raises AirflowException, AirflowFailException."""
        # Lazy import: DAG files import this module, but only tasks need the grammar.
        from sparklake.cli.main import option_names

        words = self.verb.split()
        with failing(self.verb):
            arguments = with_once(self.arguments, option_names(words), self.once, context)
            place = SparklakeHook(self.sparklake_conn_id).place
        self.log.info("sparklake %s: started", described(self.verb, arguments))
        ran = run_here(words, arguments, {"home": place.home, "dsn": place.dsn})
        for line in ran.remarks.splitlines():
            self.log.info("%s", line)
        self.log.info("sparklake %s: ended, exit code %s", self.verb, ran.code)
        self.log.info("%s", json.dumps(ran.document))
        if ran.code:
            message = message_of(ran.document) or ran.remarks.strip() or "see the log"
            raise failure(self.verb, ran.code, message)
        return ran.document


@dataclass(frozen=True, slots=True)
class Ran:
    """The outcome of a command: its exit code, its result document and its stderr."""

    code: int
    document: Any
    remarks: str


def run_here(words: Sequence[str], arguments: Sequence[str], options: Mapping[str, Any]) -> Ran:
    """Run a command in this process with these global options, without a JVM for large plans."""
    # Lazy imports: see SparklakeOperator.execute.
    from sparklake.cli.main import run
    from sparklake.cli.options import Format

    remarks = io.StringIO()
    with TemporaryDirectory(prefix="sparklake-") as folder, Path(os.devnull).open("w") as nowhere:
        result = Path(folder) / "result.json"
        settings = {"engine": Engine.LOCAL, **options, "output": Format.JSON, "result_file": result}
        with redirect_stdout(nowhere), redirect_stderr(remarks):
            code = run([*words, *arguments], settings, program="sparklake")
        return Ran(code, read_result(result), remarks.getvalue())


def read_result(path: Path) -> Any:
    """Return the document of a result file, or None if there is no file."""
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def described(verb: str, arguments: Sequence[str]) -> str:
    """Return a verb with its lake URIs; other arguments may be private."""
    return " ".join([verb, *(each for each in arguments if each.startswith(SCHEME))])
