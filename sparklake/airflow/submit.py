"""Verbs as Spark jobs, through the Spark provider's spark-submit."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

from sparklake.airflow.failures import code_of_kind, failing, failure, message_of
from sparklake.airflow.hook import SparklakeHook
from sparklake.airflow.names import DEFAULT_CONNECTION
from sparklake.airflow.once_keys import with_once
from sparklake.airflow.operator import read_result
from sparklake.airflow.versions import AirflowException


class SparklakeSubmitOperator(SparkSubmitOperator):
    """Run a verb with spark-submit, and return its result document as XCom.

    It takes the arguments of SparkSubmitOperator, except `application` and `application_args`.

    Args:
        verb: The words of the command, such as `merge` (templated).
        arguments: The arguments of the command, as on the command line (templated).
        sql: The statements of the verb `sql`, separated by semicolons (templated). A retry runs
            all of them again.
        ref: The ref where these look up unqualified tables, such as `lakefs://lake/dev`
            (templated).
        once: See SparklakeOperator.
        result_file: A path that the driver and the worker share (templated). The driver writes
            the result there. None uses a temporary file, which works if the driver runs on the
            worker, in the deploy mode `client`. In `cluster`, give a path: a driver that cannot
            write its result does nothing and fails.
        sparklake_conn_id: See SparklakeOperator. The driver receives the DSN in the environment of
            spark-submit, so configure it separately in the deploy mode `cluster`.
    """

    template_fields: Sequence[str] = (
        *SparkSubmitOperator.template_fields,
        "verb",
        "arguments",
        "sql",
        "ref",
        "once",
        "result_file",
        "sparklake_conn_id",
    )
    ui_color = "#d7e8f7"

    def __init__(
        self,
        *,
        verb: str = "sql",
        arguments: Sequence[str] = (),
        sql: str | None = None,
        ref: str | None = None,
        once: str | bool = True,
        result_file: str | None = None,
        sparklake_conn_id: str | None = DEFAULT_CONNECTION,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("name", "sparklake")
        super().__init__(**kwargs)
        self.verb = verb
        self.arguments = list(arguments)
        self.sql = sql
        self.ref = ref
        self.once = once
        self.result_file = result_file
        self.sparklake_conn_id = sparklake_conn_id

    def execute(self, context: Any) -> Any:
        """Submit the job; return its result. Raises AirflowException, AirflowFailException."""
        # Lazy import: DAG files import this module, but only tasks need the grammar.
        from sparklake.cli import jobs
        from sparklake.cli.main import option_names

        with failing(self.verb):
            self.application, words = str(jobs.FILE), self.verb.split()
            ref = [] if self.ref is None else ["--ref", self.ref]
            options = with_once([*self.arguments, *ref], option_names(words), self.once, context)
            place = SparklakeHook(self.sparklake_conn_id).place
        with self._result_path() as path, _environment(place.environment):
            # After the options: a text may start with a comment, "--".
            text = [] if self.sql is None else ["--", self.sql]
            self.application_args = [*words, *options, "--result-file", str(path), *text]
            try:
                super().execute(context)
            except AirflowException as error:
                self._raise_reported(read_result(path), error)
            document = read_result(path)
        if document is None:
            self.log.warning("no result in %s: the driver ran on another machine", path)
        else:
            self.log.info("%s", json.dumps(document))
        return document

    def _raise_reported(self, document: Any, error: Exception) -> None:
        """Raise the job's reported error, or the error of spark-submit."""
        message = message_of(document)
        if message is None:
            raise error
        self.log.error("%s", json.dumps(document))
        raise failure(self.verb, code_of_kind(document["kind"]), message) from error

    @contextmanager
    def _result_path(self) -> Iterator[Path]:
        if self.result_file is not None:
            # Lazy import: see `execute`.
            from sparklake.cli.result_file import delete_older

            path = Path(self.result_file)
            with failing(self.verb):
                delete_older(path)  # The result of an earlier try is not that of this one.
            yield path
            return
        with TemporaryDirectory(prefix="sparklake-") as folder:
            yield Path(folder) / "result.json"


@contextmanager
def _environment(added: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables temporarily: children inherit them, and no log shows them."""
    before = {name: os.environ.get(name) for name in added}
    os.environ.update(added)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
