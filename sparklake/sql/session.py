"""An SQL session: the current repository and its statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import filterfalse
from typing import TYPE_CHECKING, Any

from sparklake.branch import Branch
from sparklake.errors import (
    InvalidInputError,
    InvalidRefError,
    RefNotFoundError,
    SparklakeError,
    TableChangedError,
)
from sparklake.metadata.delta.table_files import partition_folder
from sparklake.repository import Repository
from sparklake.session import is_temporary_view, quoted
from sparklake.sql.ref_statements import (
    RefStatement,
    check_first_word,
    check_first_words,
    is_use,
    parse_ref_statement,
    repository_of,
)
from sparklake.sql.results import SmallRows, branch_rows, commit_rows, staged_rows, tag_rows
from sparklake.sql.statements import (
    Action,
    Query,
    Reference,
    Statement,
    TableName,
    created_table,
    find_tables,
    inserted_query,
)
from sparklake.sql.tokens import CATALOG, scan, split
from sparklake.uri import RefUri
from sparklake.verbs.diffs.differences import Differences
from sparklake.verbs.history.log import Log
from sparklake.verbs.tables.edits import MAX_ATTEMPTS, edit_table
from sparklake.verbs.tables.inserts import inserted_rows, static_columns
from sparklake.verbs.tables.read import has_table, is_only_in_catalog, read_table
from sparklake.verbs.tables.registry import PARQUET, found_format, get_format
from sparklake.verbs.tables.version import TableVersion, open_table
from sparklake.verbs.tables.view import view_of
from sparklake.verbs.tables.write import partition_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Arguments = Mapping[str, Any] | Sequence[Any] | None
"""The values of parameter markers, as in `spark.sql`."""

_ID_DIGITS = 16


class SqlSession:
    """Runs statements one after the other; `place` is the repository and ref of `USE`."""

    def __init__(
        self, open_repository: Callable[[str], Repository], spark: Callable[[], SparkSession]
    ) -> None:
        self._open = open_repository
        self._spark = spark
        self.place: RefUri | None = None

    def use(self, uri: RefUri) -> None:
        """Look up names of one part at this ref. Raises RefNotFoundError."""
        self._open(uri.repository).resolve(uri.ref)
        self.place = uri

    def run_to_df(self, text: str, args: Arguments = None) -> DataFrame:
        if len(split(text)) != 1:
            raise InvalidInputError(
                "lake.sql runs one statement: call it for each, or run `sparklake sql -f FILE`"
            )
        result = self.run(text, args)
        if isinstance(result, SmallRows):
            return result.to_df(self._spark())
        return result.to_df() if isinstance(result, (Log, Differences)) else result

    def run(
        self, text: str, args: Arguments = None
    ) -> DataFrame | SmallRows | Log | Differences[Any]:
        """Run one statement. Those on refs need no Spark."""
        statement = parse_ref_statement(text)
        if statement is None:
            return self._run_in_spark(text, args)
        if args:
            raise InvalidInputError(f"{statement.verb} has no parameter markers: write its values")
        return self._run_on_refs(statement)

    # --- statements of Spark ----------------------------------------------------------------------

    def _run_in_spark(self, text: str, args: Arguments) -> DataFrame | SmallRows:
        check_first_word(text)
        for _ in range(MAX_ATTEMPTS - 1):
            # An edit that lost a race staged nothing, and the statement contains all of it.
            with suppress(TableChangedError):
                return self._attempt(text, args)
        return self._attempt(text, args)

    def _attempt(self, text: str, args: Arguments) -> DataFrame | SmallRows:
        statement = find_tables(
            text, self.place, lambda name: is_temporary_view(self._spark(), name), self._is_table
        )
        statement = replace(statement, sources=[*filterfalse(self._is_sparks, statement.sources)])
        target = statement.target
        if target is None:
            rows = self._query(statement.rewritten(self._view), args)
            if self.place is not None and is_use(scan(text)):
                self.place = None
            return rows
        branch = self._branch(target.table)
        path = target.table.path
        if statement.action is Action.DROP:
            return self._drop(statement, branch, path)
        if statement.action is Action.CREATE:
            return self._create(statement, branch, path, args)
        table = open_table(branch._context, branch.name, path)
        if not table.has_objects:
            raise InvalidInputError(
                f"there is no table {target.table}: create it with CREATE TABLE"
            )
        if (name := found_format(table)) != PARQUET:
            with edit_table(branch._context, branch.name, path, name, table=table) as copy:
                text = statement.rewritten(self._view, copy.sql_name)
                return self._query(text, args, (copy.sql_name, str(target.table)))
        if statement.action is Action.INSERT:
            return self._insert(statement, branch, table, args)
        raise InvalidInputError(
            f"{target.table} is a table of Parquet files, whose rows cannot be changed: write a "
            "new one with CREATE OR REPLACE TABLE ... AS SELECT, with USING delta if its rows "
            "change often"
        )

    def _is_sparks(self, source: Reference) -> bool:
        """Return whether a name after USE is a table of Spark's, and none at the ref."""
        name = source.table
        return source.is_short and is_only_in_catalog(
            self._open(name.repository)._context, name.ref, name.path
        )

    def _is_table(self, name: str) -> bool:
        """Return whether the ref of USE has a table of this name."""
        assert self.place is not None
        context = self._open(self.place.repository)._context
        return has_table(context, open_table(context, self.place.ref, name))

    def _query(self, text: str, args: Arguments, target: tuple[str, str] = ("", "")) -> DataFrame:
        """Run a text in Spark. Its errors have the second name of a target for the first."""
        # Lazy import: statements on refs need no Spark.
        from pyspark.errors import ParseException

        spark = self._spark()
        try:
            return spark.sql(text) if args is None else spark.sql(text, args)  # type: ignore[arg-type]
        except Exception as error:
            for name in ("_desc", "_message", "_stackTrace", "_stacktrace"):
                if target[0] and isinstance(value := getattr(error, name, None), str):
                    setattr(error, name, value.replace(*target))
            if isinstance(error, ParseException):
                check_first_words(text)
            raise

    def _view(self, name: TableName) -> str:
        """Make a temporary view of a table, and return its name, which depends on the content.

        Views stay until Spark's session ends: lazy DataFrames and other views refer to them. Errors
        and plans of Spark contain the name.
        """
        context = self._open(name.repository)._context
        table = open_table(context, name.ref, name.path)
        version = view_of(context, table, 0, context.info.uid).id[:_ID_DIGITS]
        view = f"{CATALOG}.{name.repository}.{name.ref}.{name.path} {version}"
        read_table(context, table, None, {}).createOrReplaceTempView(quoted(view))
        return view

    def _branch(self, name: TableName) -> Branch:
        repository = self._open(name.repository)
        try:
            return repository.branch(name.ref)
        except (RefNotFoundError, InvalidRefError):
            repository.resolve(name.ref)
            raise InvalidInputError(
                f"{name} cannot be written: {name.ref!r} is not a branch, and only branches change"
            ) from None

    def _insert(
        self, statement: Statement, branch: Branch, table: TableVersion, args: Arguments
    ) -> SmallRows:
        query = inserted_query(statement)
        rows = self._query(self._text(statement, query), args)
        names = rows.columns if query.by_name else query.columns
        columns = partition_columns(table)
        static = static_columns(table, columns, query.partition)
        # With values for all columns, Spark replaces a partition in each mode, also by no rows.
        is_static = bool(static) and len(static) == len(columns)
        options: dict[str, Any] = {"partitionOverwriteMode": "static"} if is_static else {}
        inserted = inserted_rows(branch._context, table, rows, names, static)
        write = branch.write(
            inserted.drop(*static),
            f"{table.folder}{self._folder(branch, table, static, inserted)}".rstrip("/"),
            format=PARQUET,
            mode="overwrite" if statement.overwrites else "append",
            partition_by=columns[len(static) :],
            **options,
        )
        return staged_rows(table.path, write.files, write.size)

    def _folder(
        self, branch: Branch, table: TableVersion, static: Mapping[str, str], inserted: DataFrame
    ) -> str:
        """Return a partition's folder in a table, from SQL values."""
        if not static:
            return ""
        types = {name: inserted.schema[name].dataType.simpleString() for name in static}
        values = (
            f"CAST(CAST({value} AS {types[name]}) AS STRING)" for name, value in static.items()
        )
        row = self._query(f"SELECT {', '.join(values)}", None).head()
        assert row is not None
        texts = dict(zip(static, row, strict=True))
        spelled = dict(texts)
        for name, value in static.items():
            if texts[name] is None and value.upper() != "NULL":
                raise InvalidInputError(f"{value} is no value of the column {name!r}")
            # A table may have month=01, which Spark reads as 1.
            if value.startswith(("'", '"')) and types[name] != "string":
                spelled[name] = value[1:-1]
        folder = partition_folder(spelled.items())
        if (
            spelled == texts
            or open_table(branch._context, branch.name, f"{table.folder}{folder}").has_objects
        ):
            return folder
        return partition_folder(texts.items())

    def _create(
        self, statement: Statement, branch: Branch, path: str, args: Arguments
    ) -> SmallRows:
        new = created_table(statement)
        default = self._spark().conf.get("spark.sql.sources.default", PARQUET)
        table_format = str(new.format or default)
        if isinstance(new.query, str):
            query = new.query
            is_plain = not get_format(table_format).has_metadata
            if is_plain and (table_format != PARQUET or new.partition_by):
                raise InvalidInputError(
                    f"{path!r} without rows would lose its columns: create it with USING delta, or "
                    "with CREATE TABLE ... AS SELECT"
                )
        else:
            query = self._text(statement, new.query)
        is_replaced = new.mode == "overwrite"
        options: dict[str, Any] = {}
        if is_replaced:
            own = get_format(table_format).replacing
            options = {"partitionOverwriteMode": "static", **own}
        write = branch.write(
            self._query(query, args),
            path,
            format=table_format,
            mode=new.mode,
            partition_by=new.partition_by,
            **options,
        )
        return staged_rows(write.path, write.files, write.size)

    def _text(self, statement: Statement, query: Query) -> str:
        return "".join(statement.rewritten(self._view, "", *each) for each in query.parts)

    def _drop(self, statement: Statement, branch: Branch, path: str) -> SmallRows:
        table = open_table(branch._context, branch.name, path)
        if not table.has_objects:
            if statement.has_condition:
                return staged_rows(path, 0, 0)
            raise InvalidInputError(f"there is no table {path!r} on {branch.name!r}")
        _check_is_table(table)
        return staged_rows(path, branch.remove(table.folder, recursive=True), 0)

    # --- statements on refs -----------------------------------------------------------------------

    def _run_on_refs(self, statement: RefStatement) -> SmallRows | Log | Differences[Any]:
        repository = self._open(repository_of(statement, self.place))
        try:
            return _RUNS[statement.verb](self, repository, statement)
        except SparklakeError as error:
            first, *others = map(str, error.args)
            for option, words in _OPTIONS.items():
                first = first.replace(option, words)
            error.args = (first, *others)
            raise

    def _current_ref(self, repository: Repository) -> str:
        if self.place is not None and self.place.repository == repository.name:
            return self.place.ref
        return repository.info.default_branch

    def _use(self, repository: Repository, statement: RefStatement) -> SmallRows:
        ref = statement.refs[0] if statement.refs else repository.info.default_branch
        self.use(RefUri(repository.name, ref))
        return SmallRows(
            "repository string, ref string", [{"repository": repository.name, "ref": ref}]
        )

    def _create_branch(self, repository: Repository, statement: RefStatement) -> SmallRows:
        source = statement.clauses.get("FROM") or self._current_ref(repository)
        branch = repository.create_branch(
            statement.refs[0], source, exist_ok=statement.has_condition
        )
        return branch_rows([branch.state])

    def _drop_branch(self, repository: Repository, statement: RefStatement) -> SmallRows:
        name = statement.refs[0]
        states = [each for each in repository.branch_states(hidden=True) if each.name == name]
        repository.delete_branch(name, missing_ok=statement.has_condition)
        return branch_rows(states)

    def _create_tag(self, repository: Repository, statement: RefStatement) -> SmallRows:
        ref = statement.clauses.get("FROM") or self._current_ref(repository)
        tag = repository.create_tag(statement.refs[0], ref, exist_ok=statement.has_condition)
        return tag_rows([tag])

    def _drop_tag(self, repository: Repository, statement: RefStatement) -> SmallRows:
        name = statement.refs[0]
        tags = [each for each in repository.tags() if each.name == name]
        try:
            repository.delete_tag(name)
        except RefNotFoundError:
            if not statement.has_condition:
                raise
        return tag_rows(tags)

    def _commit(self, repository: Repository, statement: RefStatement) -> SmallRows:
        name = self._ref(repository, statement)
        branch = repository.branch(name)
        commit = branch.commit(
            statement.clauses["MESSAGE"],
            metadata=statement.metadata,
            if_needed=statement.has_condition,
        )
        return commit_rows(name, commit)

    def _merge(self, repository: Repository, statement: RefStatement) -> SmallRows:
        dest = statement.clauses["INTO"]
        commit = repository.merge(
            statement.refs[0],
            dest,
            strategy=statement.clauses.get("STRATEGY"),
            message=statement.clauses.get("MESSAGE"),
            metadata=statement.metadata,
        )
        return commit_rows(dest, commit)

    def _show_branches(self, repository: Repository, statement: RefStatement) -> SmallRows:
        return branch_rows(repository.branch_states())

    def _show_tags(self, repository: Repository, statement: RefStatement) -> SmallRows:
        return tag_rows(repository.tags())

    def _show_commits(self, repository: Repository, statement: RefStatement) -> Log:
        limit = statement.clauses.get("LIMIT")
        return repository.log(self._ref(repository, statement), int(limit) if limit else None)

    def _show_changes(self, repository: Repository, statement: RefStatement) -> Differences[Any]:
        return repository.diff_uncommitted(self._ref(repository, statement))

    def _diff(self, repository: Repository, statement: RefStatement) -> Differences[Any]:
        left, right = statement.refs
        return repository.diff(left, right)

    def _ref(self, repository: Repository, statement: RefStatement) -> str:
        return statement.refs[0] if statement.refs else self._current_ref(repository)


_OPTIONS = {
    "--exist-ok": "IF NOT EXISTS",
    "with --discard-staged (in Python discard_staged=True)": (
        "with `sparklake branch delete --discard-staged`"
    ),
    "with --no-schema-check": "with `sparklake merge --no-schema-check`",
}
"""What SQL has in place of the options in errors."""

_RUNS: Mapping[str, Callable[..., SmallRows | Log | Differences[Any]]] = {
    "USE": SqlSession._use,
    "CREATE BRANCH": SqlSession._create_branch,
    "DROP BRANCH": SqlSession._drop_branch,
    "CREATE TAG": SqlSession._create_tag,
    "DROP TAG": SqlSession._drop_tag,
    "COMMIT": SqlSession._commit,
    "MERGE BRANCH": SqlSession._merge,
    "SHOW BRANCHES": SqlSession._show_branches,
    "SHOW TAGS": SqlSession._show_tags,
    "SHOW COMMITS": SqlSession._show_commits,
    "SHOW CHANGES": SqlSession._show_changes,
    "DIFF": SqlSession._diff,
}


def _check_is_table(table: TableVersion) -> None:
    """Reject a folder with several tables: `tables` is none, and DROP would remove all of them."""
    if found_format(table) != PARQUET:
        return
    for each in table.objects:
        *folders, _ = each.path.removeprefix(table.folder).split("/")
        if not all("=" in folder for folder in folders):
            raise InvalidInputError(
                f"{table.path!r} on {table.ref!r} is not one table: it contains the folder of "
                f"{each.path!r}. Drop single tables, or run `sparklake rm --recursive`"
            )
