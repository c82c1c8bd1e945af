"""`sparklake sql`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sparklake.cli.invocation import Invocation, command
from sparklake.cli.options import argument, option
from sparklake.cli.parsing import ROWS_SHOWN, STDIN
from sparklake.cli.spark_rows import refused_by_spark
from sparklake.documents import Document, diff_document, log_document
from sparklake.errors import InvalidInputError, SparklakeError
from sparklake.uri import ref_uri

if TYPE_CHECKING:
    from sparklake.sql.session import SqlSession

_REMEDY = 'pass one, such as sparklake sql "SHOW BRANCHES IN lakefs.lake", or --file FILE'


@command
def sql(
    invocation: Invocation,
    text: Annotated[str | None, argument("STATEMENTS")] = None,
    file: Annotated[
        str | None,
        option("Run the statements of this file, - for stdin.", "--file", "-f", metavar="FILE"),
    ] = None,
    ref: Annotated[
        str | None,
        option("Look up unqualified tables at this ref.", "--ref", metavar="lakefs://REPO/REF"),
    ] = None,
    limit: Annotated[int, option("Show at most this many rows.", min=1)] = ROWS_SHOWN,
) -> None:
    """Run SQL over tables at refs, and statements on refs.

    Semicolons separate statements; JSON has the rows of the last one. Statements on refs need no
    Spark. Without statements, a terminal shows a prompt.
    """
    # Lazy imports: --help needs no sqlglot.
    from sparklake.session import spark_session
    from sparklake.sql.ref_statements import parse_ref_statement
    from sparklake.sql.session import SqlSession
    from sparklake.sql.tokens import split

    asks = text is None and file is None and invocation.can_prompt
    statements = [] if asks else split(_script(text, file))
    if not statements and not asks:
        raise InvalidInputError(f"there is no statement: {_REMEDY}")
    on_refs = [parse_ref_statement(each) is not None for each in statements]
    invocation.uses_spark = asks or not all(on_refs)
    session = SqlSession(invocation.lake.repository, spark_session)
    if ref is not None:
        session.use(ref_uri(ref))
    if asks:
        _prompt(invocation, session, limit)
    for at, statement in enumerate(statements, start=1):
        _run(invocation, session, statement, limit, is_last=at == len(statements))


def _prompt(invocation: Invocation, session: SqlSession, limit: int) -> None:
    """Run the statements that are typed. An error does not end the prompt."""
    # Lazy imports: a script needs no readline.
    from sparklake.cli.sql_prompt import typed_statements
    from sparklake.sql.tokens import split

    invocation.out.note("a semicolon ends a statement, Tab completes names, Ctrl-D ends")
    history = invocation.settings.home / "sql_history"
    for text in typed_statements(invocation.lake, session, history):
        try:
            for statement in split(text):
                _run(invocation, session, statement, limit, is_last=True)
        except SparklakeError as error:
            invocation.out.fail(error)
        invocation.out.flush()


def _run(
    invocation: Invocation, session: SqlSession, statement: str, limit: int, *, is_last: bool
) -> None:
    # Lazy import: --help needs no sqlglot.
    from sparklake.sql.ref_statements import parse_ref_statement

    line, out = " ".join(statement.split()), invocation.out
    is_on_refs = parse_ref_statement(statement) is not None
    with nullcontext() if is_on_refs else refused_by_spark(f"Spark cannot run {line!r}"):
        with out.working(line):
            rows = list(islice(_documents(session.run(statement), limit + 1), limit + 1))
        if is_last or (rows and not out.is_json):
            names = list(rows[0]) if rows else []
            out.table(rows[:limit], {each: _cell(each) for each in names})
        if len(rows) > limit:
            out.note("there are more rows: raise --limit")


def _script(text: str | None, file: str | None) -> str:
    if text is None and file is None:
        raise InvalidInputError(f"there is no statement, and no terminal to type one: {_REMEDY}")
    if text is not None and file is not None:
        raise InvalidInputError("pass either statements or --file FILE")
    if STDIN in (text, file):
        return sys.stdin.read()
    if file is None:
        return text or ""
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeError) as error:
        raise InvalidInputError(f"cannot read the statements in {file!r}: {error}") from error


def _documents(result: Any, limit: int) -> Iterable[Document]:
    # Lazy imports: --help needs neither.
    from sparklake.sql.results import SmallRows
    from sparklake.verbs.diffs.differences import Differences
    from sparklake.verbs.history.log import Log

    if isinstance(result, SmallRows):
        return result.rows
    if isinstance(result, Log):
        return map(log_document, result.marked())
    if isinstance(result, Differences):
        return map(diff_document, result)
    from sparklake.frames.tables.row_values import json_rows

    return json_rows(result, limit)


def _cell(name: str) -> Any:
    def text(row: Document) -> str:
        value = row[name]
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    return text
