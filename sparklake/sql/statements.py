"""Lake tables in a statement: positions of their names, and the statement's effect."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from sqlglot import Token, TokenType, exp, parse
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError

from sparklake.errors import InvalidInputError
from sparklake.session import quoted
from sparklake.sql.tokens import (
    CATALOG,
    STRINGS,
    check_comments,
    is_word,
    mentions_lake,
    position,
    scan,
)
from sparklake.uri import RefUri

# The first words of statements in which a name of one part is no table.
_NAMES_NO_TABLE = re.compile(
    r"(RESET|ADD|LIST|USE|UNCACHE|CLEAR|SET(?! VAR)|DROP(?! TABLE)"
    r"|DESC(RIBE)? (FUNCTION|DATABASE|SCHEMA|NAMESPACE|CATALOG)"
    r"|SHOW(?! (COLUMNS|CREATE|PARTITIONS|TBLPROPERTIES)))\b",
    re.IGNORECASE,
)
# The words before the target of a change, in a statement of unknown syntax.
_BEFORE_TARGET = re.compile(
    r"\b(INTO|OVERWRITE|(INTO|OVERWRITE|CREATE|REPLACE|TRUNCATE|REPAIR) TABLE|TABLE IF NOT EXISTS"
    r"|UPDATE|DELETE FROM|VACUUM|RESTORE|(RESTORE|ON) TABLE)$",
    re.IGNORECASE,
)
_NO_TARGETS = ("TABLE", "DIRECTORY", "LOCAL", "SET", "IF")
_NEVER = {
    "BEGIN": "run each statement on its own",
    "DESC DETAIL": "use DESCRIBE TABLE",
    "DESC HISTORY": "SHOW COMMITS has the history of a ref, and `sparklake log` that of a table",
    "RESTORE": "`sparklake restore` restores a table",
    "SHOW": "use DESCRIBE TABLE, or `sparklake ls` for the tables of a folder",
    "TABLE": "select its rows",
    "TRUNCATE": "use DELETE FROM or CREATE OR REPLACE TABLE",
    "VACUUM": "`sparklake gc run` deletes unreferenced files",
}
"""The first words of statements that a lake table cannot be in, and what to do instead."""

_IN_PART = {
    "ALTER": "`sparklake mv` renames a table",
    "CREATE": "a lake has tables only: create a table, or a temporary view",
    "DROP": "drop each table with a statement of its own",
    "EXPLAIN": "explain the query",
    "FROM": "run an INSERT for each table",
}
_POSSIBLE = (
    "possible are queries, INSERT, UPDATE, DELETE, MERGE, ALTER TABLE, OPTIMIZE, CREATE TABLE, "
    "DROP TABLE, DESCRIBE TABLE, CACHE TABLE and EXPLAIN of a query"
)
_EXPLAIN_MODES = ("EXTENDED", "CODEGEN", "COST", "FORMATTED")
_EVOLUTION = ("WITH", "SCHEMA", "EVOLUTION")
_UNQUOTED = re.compile(r"\w+")

# It would print a warning beside our error.
logging.getLogger("sqlglot").setLevel(logging.ERROR)

_EDITS = (exp.Update, exp.Delete, exp.Merge)
_DESCRIBED = (None, "EXTENDED", "FORMATTED")
_STATEMENTS = (
    *_EDITS,
    exp.Query,
    exp.Values,
    exp.Describe,
    exp.Cache,
    exp.Insert,
    exp.Create,
    exp.Drop,
)


@dataclass(frozen=True, slots=True)
class TableName:
    """A table at a ref."""

    repository: str
    ref: str
    path: str

    def __str__(self) -> str:
        return ".".join([CATALOG, *map(quoted, (self.repository, self.ref, self.path))])


class Action(str, Enum):
    """What a statement does with its target. `EDIT` runs in Spark on a copy of its log."""

    READ = "read"
    INSERT = "insert"
    EDIT = "edit"
    CREATE = "create"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class Reference:
    """An occurrence of a lake table, at [start, end) in the text.

    `alias` is the name of its columns' qualifier, if the statement gives none. A short name has
    one part.
    """

    table: TableName
    start: int
    end: int
    alias: str = ""
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, with the lake tables to read and at most one to change."""

    text: str
    sources: Sequence[Reference] = ()
    target: Reference | None = None
    action: Action = Action.READ
    tree: exp.Expr | None = None
    tokens: Sequence[Token] = ()

    @property
    def overwrites(self) -> bool:
        """Whether it is INSERT OVERWRITE."""
        return bool(self.tree and self.tree.args.get("overwrite"))

    @property
    def has_condition(self) -> bool:
        """Whether it contains IF EXISTS or IF NOT EXISTS."""
        return bool(self.tree and self.tree.args.get("exists"))

    def rewritten(
        self,
        source: Callable[[TableName], str],
        target: str = "",
        start: int = 0,
        end: int | None = None,
    ) -> str:
        """Return a part of the text with identifiers of its sources, and the target's name."""
        pieces, at = [], start
        end = len(self.text) if end is None else end
        references = [*self.sources, *([self.target] if self.target else [])]
        for each in sorted(references, key=lambda reference: reference.start):
            if not start <= each.start < end:
                continue
            name = target if each is self.target else quoted(source(each.table))
            alias = f" AS {quoted(each.alias)}" if each.alias else ""
            pieces += [self.text[at : each.start], name, alias]
            at = each.end
        return "".join([*pieces, self.text[at:end]])


def find_tables(
    text: str,
    place: RefUri | None = None,
    is_view: Callable[[str], bool] = lambda _: False,
    is_table: Callable[[str], bool] = lambda _: False,
) -> Statement:
    """Find the lake tables of one statement.

    These are `lakefs.REPOSITORY.REF.PATH`, and after USE also names of one part, except for common
    table expressions and temporary views. `is_table` finds tables at the ref of USE: a statement
    of unknown syntax is Spark's, unless one of its words is their name.

    Raises:
        InvalidInputError: The statement cannot be parsed, or is not possible on lake tables.
    """
    tokens = scan(text)
    is_lake = mentions_lake(tokens)
    if not tokens or not (is_lake or place):
        return Statement(text)
    words = " ".join(each.text for each in tokens[:3])
    if not is_lake and _NAMES_NO_TABLE.match(words):
        return Statement(text)
    finder = _Finder(place, is_view)
    if is_word(tokens[0], "ALTER", "OPTIMIZE"):
        altered, culprit = _alter(text, tokens, finder), None
        if altered is not None:
            return altered
    else:
        tree, culprit = _parse(text, tokens)
        if isinstance(tree, _STATEMENTS):
            return _with_action(text, tokens, tree, finder)
    name = _lake_name(tokens, place, lambda name: is_table(name) and not is_view(name))
    if name is not None:
        raise _impossible(text, tokens, name, culprit)
    return Statement(text)


def _lake_name(
    tokens: Sequence[Token], place: RefUri | None, is_table: Callable[[str], bool]
) -> Token | None:
    """Return the first token that may be the name of a lake table, in unknown syntax."""
    for at, each in enumerate(tokens):
        if mentions_lake(tokens[max(at - 1, 0) : at + 2]):
            return each
        if place is not None and _is_short(tokens, at):
            before = " ".join(token.text for token in tokens[max(at - 4, 0) : at])
            is_target = _BEFORE_TARGET.search(before) and not is_word(tokens[0], "EXECUTE", "SHOW")
            if is_target or is_table(each.text):
                return each
    return None


def _is_short(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a token may be a name of one part."""
    token, *after = tokens[at : at + 2]
    if at == 0 or token.token_type in STRINGS or is_word(token, *_NO_TARGETS):
        return False
    is_name = token.token_type is TokenType.IDENTIFIER or _UNQUOTED.fullmatch(token.text)
    dots = [each for each in (tokens[at - 1], *after) if each.token_type is TokenType.DOT]
    return bool(is_name and not dots)


def _impossible(
    text: str, tokens: Sequence[Token], name: Token, culprit: Token | None = None
) -> InvalidInputError:
    """Return the error of a statement with a lake table, at the token that is not understood."""
    words = [token.text for token in tokens if token.start < name.start][:3]
    head = " ".join(words[:2]).upper().replace("DESCRIBE ", "DESC ")
    first = head.partition(" ")[0]
    advice = _NEVER.get(head) or _NEVER.get(first)
    place = f"{name.text!r} at {position(text, name.start)}"
    if advice is None and culprit is not None:
        return InvalidInputError(
            f"{culprit.text!r} at {position(text, culprit.start)} is not understood, in a "
            f"statement with the lake table {place}: {_POSSIBLE}. Names such as `my-lake` and "
            "`main~1` need backquotes"
        )
    hint = "" if name.text.lower() == CATALOG else ". For a table of Spark's, write its schema, too"
    return InvalidInputError(
        f"{' '.join(words)} is not possible with a lake table, {place}: "
        f"{advice or _IN_PART.get(first, _POSSIBLE)}{hint}"
    )


def _with_action(text: str, tokens: Sequence[Token], tree: exp.Expr, finder: _Finder) -> Statement:
    changed, action = _changed(tree)
    target = finder.find(changed, is_target=True) if changed else None
    tables = (each for each in tree.find_all(exp.Table) if each is not changed)
    sources = [each for each in map(finder.find, tables) if each]
    if not sources and target is None:
        return Statement(text)
    check_comments(text, tokens)
    is_explained = is_word(tokens[0], "EXPLAIN")
    is_other = isinstance(tree, exp.Create) and tree.kind != "TABLE"
    is_drop = isinstance(tree, exp.Drop) and bool(sources)
    is_detail = isinstance(tree, exp.Describe) and tree.args.get("style") not in _DESCRIBED
    if is_drop or is_detail or (target is not None and (is_explained or is_other)):
        first = target or sources[0]
        name = next(each for each in tokens if each.start == first.start)
        raise _impossible(text, tokens, name)
    return Statement(text, sources, target, action, tree, tokens)


def _changed(tree: exp.Expr) -> tuple[exp.Table | None, Action]:
    """Return the target table of a statement, in a lake or not."""
    action, changed = Action.READ, None
    if isinstance(tree, exp.Insert):
        action, changed = Action.INSERT, tree.this
    elif isinstance(tree, _EDITS):
        action, changed = Action.EDIT, tree.this
    elif isinstance(tree, exp.Create):
        action, changed = Action.CREATE, tree.this
    elif isinstance(tree, exp.Drop) and tree.kind == "TABLE":
        tables = tree.args.get("tables") or [tree.this]
        action, changed = Action.DROP, tables[0]
    changed = changed.this if isinstance(changed, exp.Schema) else changed
    return (changed if isinstance(changed, exp.Table) else None), action


# --- names ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Finder:
    place: RefUri | None
    is_view: Callable[[str], bool]

    def find(self, table: exp.Table, *, is_target: bool = False) -> Reference | None:
        parts = table.parts
        if not all(isinstance(each, exp.Identifier) and "start" in each.meta for each in parts):
            return None
        if isinstance(table.parent, (exp.JoinHint, exp.Hint)) or _is_defined_here(table):
            return None
        start, end = parts[0].meta["start"], parts[-1].meta["end"] + 1
        if len(parts) == 1 and not is_target and _is_common_expression(table):
            return None
        texts = [(each.name, bool(each.args.get("quoted"))) for each in parts]
        name = self.name(texts, is_target=is_target)
        if name is None:
            return None
        if table.args.get("version") or table.args.get("when"):
            raise InvalidInputError(
                f"AS OF is not possible for {name}: its ref is the version. Use a tag, a commit "
                "or `main~1` as its ref"
            )
        alias = name.path.rpartition("/")[2] if _takes_alias(table) else ""
        return Reference(name, start, end, alias, is_short=len(parts) == 1)

    def name(
        self, parts: Sequence[tuple[str, bool]], *, is_target: bool = False
    ) -> TableName | None:
        """Return the lake table of a name, given as parts and whether each is quoted.

        A target of a change is never a view.
        """
        texts = [text for text, _ in parts]
        if len(parts) == 1:
            if self.place is None or (not is_target and self.is_view(texts[0])):
                return None
            return TableName(self.place.repository, self.place.ref, texts[0])
        if texts[0].lower() != CATALOG:
            return None
        for text, is_quoted in parts:
            if not is_quoted and not _UNQUOTED.fullmatch(text):
                raise InvalidInputError(f"write {quoted(text)} in backquotes in {'.'.join(texts)}")
        if len(parts) < 4:
            raise InvalidInputError(
                f"{'.'.join(texts)} is not a lake table: write {CATALOG}.REPOSITORY.REF.`PATH`"
            )
        return TableName(texts[1], texts[2], "/".join(texts[3:]))


def _takes_alias(table: exp.Table) -> bool:
    """Return whether ` AS name` may follow a table's name, and does not."""
    if table.args.get("alias") or table.args.get("sample"):
        return False
    return isinstance(table.parent, (exp.From, exp.Join, exp.Subquery, *_EDITS))


def _is_defined_here(table: exp.Table) -> bool:
    """Return whether the statement defines the name, as a view or a cache entry."""
    parent = table.parent
    if isinstance(parent, (exp.Schema, exp.UserDefinedFunction)):
        parent = parent.parent
    is_view = isinstance(parent, exp.Create) and parent.kind != "TABLE"
    is_cache = isinstance(parent, exp.Cache) and parent.expression is not None
    return len(table.parts) == 1 and table.arg_key == "this" and (is_view or is_cache)


def _is_common_expression(table: exp.Table) -> bool:
    """Return whether a WITH in scope defines the name."""
    name, node = table.name.lower(), table.parent
    below: exp.Expr | None = None
    while node is not None:
        within = node.args.get("with_")
        if within is not None:
            for each in within.expressions:
                if each is below and not within.args.get("recursive"):
                    break
                if each.alias.lower() == name:
                    return True
        # A definition sees only the earlier ones of its own WITH.
        below = node if isinstance(node, exp.CTE) else below
        node = node.parent
    return False


# --- parsing --------------------------------------------------------------------------------------


def _parse(text: str, tokens: Sequence[Token]) -> tuple[exp.Expr | None, Token | None]:
    """Parse one statement, or the one that is explained.

    If its syntax is not known, return the token where it stops to be, unless it is the first one.
    """
    if is_word(tokens[0], "EXPLAIN"):
        first = 2 if len(tokens) > 1 and is_word(tokens[1], *_EXPLAIN_MODES) else 1
        if first == len(tokens):
            return None, None
        text = _blanked(text, 0, tokens[first].start)
    for at, each in enumerate(tokens[:-3]):
        # sqlglot does not parse these words.
        if is_word(each, "MERGE", "INSERT") and _are_words(tokens[at + 1 :], *_EVOLUTION):
            text = _blanked(text, each.end + 1, tokens[at + 3].end + 1)
    try:
        trees = [each for each in parse(text, dialect=Spark()) if each]
    except (SqlglotError, RecursionError) as error:
        first = (getattr(error, "errors", None) or [{}])[0]
        place = (first.get("line"), first.get("col"))
        return None, next((each for each in tokens if (each.line, each.col) == place), None)
    statements = [each for each in trees if not isinstance(each, exp.Semicolon)]
    if len(statements) != 1 or next(statements[0].find_all(exp.Command), None):
        return None, None
    return statements[0], None


def _blanked(text: str, start: int, end: int) -> str:
    """Replace a part of a text with spaces: the positions stay the same."""
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]


def _are_words(tokens: Sequence[Token], *words: str) -> bool:
    return len(tokens) >= len(words) and all(map(is_word, tokens, words))


def _alter(text: str, tokens: Sequence[Token], finder: _Finder) -> Statement | None:
    """Find the table that ALTER TABLE or OPTIMIZE changes: sqlglot parses only some forms."""
    first = 1 if is_word(tokens[0], "OPTIMIZE") else 2
    if first == 2 and not (len(tokens) > 2 and is_word(tokens[1], "TABLE")):
        return None
    last, parts = first, []
    while last < len(tokens) and tokens[last].token_type not in STRINGS:
        parts.append((tokens[last].text, tokens[last].token_type is TokenType.IDENTIFIER))
        if last + 1 == len(tokens) or tokens[last + 1].token_type is not TokenType.DOT:
            break
        last += 2
    name = finder.name(parts, is_target=True) if parts else None
    tail = tokens[last + 1 :]
    if name is None:
        return None if mentions_lake(tail) else Statement(text)
    words = tuple(each.text.upper() for each in tail[:2])
    if mentions_lake(tail) or words in (("RENAME", "TO"), ("SET", "LOCATION")):
        raise _impossible(text, tokens, tokens[first])
    check_comments(text, tokens)
    target = Reference(name, tokens[first].start, tokens[last].end + 1)
    return Statement(text, (), target, Action.EDIT, None, tokens)


# --- what INSERT and CREATE TABLE write -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Query:
    """The query in an INSERT or a CREATE TABLE, as parts of the text.

    `columns` are the target's columns in the order of the query's; None is all of them in their
    order, and with `by_name` the query's own names. `partition` has the columns of PARTITION with
    their values as SQL, None for those that the query has.
    """

    parts: Sequence[tuple[int, int]]
    columns: Sequence[str] | None = None
    by_name: bool = False
    partition: Mapping[str, str | None] = field(default_factory=dict)


def inserted_query(statement: Statement) -> Query:
    """Return the query of an INSERT into files.

    Raises:
        InvalidInputError: It has a clause that only Delta has.
    """
    tree, target, tokens = statement.tree, statement.target, list(statement.tokens)
    assert isinstance(tree, exp.Insert)
    assert target is not None
    table = _changed(tree)[0]
    if table is None or tree.args.get("where") or tree.args.get("exists"):
        raise InvalidInputError(
            "INSERT with REPLACE WHERE or IF NOT EXISTS needs a Delta table, and "
            f"{target.table} is none: use INSERT OVERWRITE with PARTITION"
        )
    insert = next(at for at, each in enumerate(tokens) if is_word(each, "INSERT"))
    if is_word(tokens[insert + 1], "WITH"):
        raise InvalidInputError(
            f"WITH SCHEMA EVOLUTION needs a Delta table, and {target.table} is none: write it with "
            "lake.write and the option mergeSchema"
        )
    tail = [each for each in tokens if each.start >= target.end]
    columns, partition = None, dict[str, str | None]()
    if clause := table.args.get("partition"):
        end = _after_parenthesis(tail)
        partition = _partition(statement.text, clause, tail[: len(tail) - len(end)])
        tail = end
    if isinstance(tree.this, exp.Schema):
        columns = [each.name for each in tree.this.expressions]
        tail = _after_parenthesis(tail)
    by_name = len(tail) > 1 and is_word(tail[0], "BY") and is_word(tail[1], "NAME")
    tail = tail[2:] if by_name else tail
    parts = [(0, tokens[insert].start), (tail[0].start, _end(statement))]
    return Query(parts, columns, by_name, partition)


def _partition(text: str, clause: exp.Expr, tokens: Sequence[Token]) -> dict[str, str | None]:
    """Return the columns and value texts of PARTITION (...)."""
    names, parts = list[str](), [list[Token]()]
    for each in clause.expressions:
        column, value = (each.this, each.expression) if isinstance(each, exp.EQ) else (each, None)
        if not isinstance(column, exp.Column) or not _is_constant(value):
            raise InvalidInputError(
                "PARTITION takes columns and constants such as day = '2026-07-01', not "
                f"{each.sql(dialect=Spark())}"
            )
        names.append(column.name)
    for token in tokens[2:-1]:
        if token.token_type is TokenType.COMMA:
            parts.append([])
        else:
            parts[-1].append(token)
    return {
        name: text[part[2].start : part[-1].end + 1] if len(part) > 1 else None
        for name, part in zip(names, parts, strict=True)
    }


def _is_constant(value: exp.Expr | None) -> bool:
    inner = value.this if isinstance(value, exp.Neg | exp.Cast) else value
    # sqlglot reads 'it''s' as two literals.
    parts = inner.expressions if isinstance(inner, exp.Concat) else [inner]
    return all(isinstance(each, exp.Literal | exp.Boolean | exp.Null | None) for each in parts)


def _after_parenthesis(tokens: list[Token]) -> list[Token]:
    end = next(at for at, each in enumerate(tokens) if each.token_type is TokenType.R_PAREN)
    return tokens[end + 1 :]


def _end(statement: Statement) -> int:
    """Return the end of the text before a final semicolon."""
    last = statement.tokens[-1]
    return last.start if last.token_type is TokenType.SEMICOLON else len(statement.text)


@dataclass(frozen=True, slots=True)
class NewTable:
    """A CREATE TABLE. `format` is None for Spark's default.

    A table of given columns has no query in the statement, but one of no rows.
    """

    query: Query | str
    format: str | None
    partition_by: Sequence[str]
    mode: str


def created_table(statement: Statement) -> NewTable:
    """Return the table that a CREATE TABLE creates.

    Raises:
        InvalidInputError: It has neither a query nor columns with types only, or a clause other
            than USING and PARTITIONED BY.
    """
    tree, target = statement.tree, statement.target
    assert isinstance(tree, exp.Create)
    assert target is not None
    table_format, partition_by = None, []
    if (tree.expression is None) != isinstance(tree.this, exp.Schema):
        raise InvalidInputError(
            f"CREATE TABLE {target.table} needs either columns or rows: write CREATE TABLE ... "
            "(id INT, ...) or CREATE TABLE ... AS SELECT"
        )
    for each in tree.args["properties"].expressions if tree.args.get("properties") else ():
        if isinstance(each, exp.FileFormatProperty):
            table_format = each.name.lower()
        elif isinstance(each, exp.PartitionedByProperty) and _are_names(each.this):
            partition_by = [column.name for column in each.this.expressions]
        else:
            raise InvalidInputError(
                f"CREATE TABLE {target.table} allows only USING FORMAT and PARTITIONED BY "
                f"(COLUMN, ...), not {each.sql(dialect=Spark())}: set properties of a Delta table "
                "with ALTER TABLE"
            )
    query = _no_rows(tree.this) if tree.expression is None else Query([_selected(statement)])
    return NewTable(query, table_format, partition_by, _mode(tree))


def _no_rows(columns: exp.Expr) -> str:
    nulls = []
    for each in columns.expressions:
        if not isinstance(each, exp.ColumnDef) or each.kind is None or each.constraints:
            raise InvalidInputError(
                f"a column of CREATE TABLE allows only a name and a type, not "
                f"{each.sql(dialect=Spark())}: set the others of a Delta table with ALTER TABLE"
            )
        kind = each.kind.sql(dialect=Spark())
        if any(part.is_type("char", "varchar") for part in each.kind.find_all(exp.DataType)):
            raise InvalidInputError(
                f"{kind} of the column {each.name!r} would lose its limit: write STRING, and in a "
                "Delta table ALTER TABLE ... ADD CONSTRAINT NAME CHECK "
                f"(length({quoted(each.name)}) <= LIMIT)"
            )
        nulls.append(f"CAST(NULL AS {kind}) AS {quoted(each.name)}")
    return f"SELECT {', '.join(nulls)} WHERE false"


def _are_names(columns: exp.Expr) -> bool:
    names = columns.expressions
    return bool(names) and all(isinstance(each, (exp.Identifier, exp.Column)) for each in names)


def _mode(tree: exp.Create) -> str:
    if tree.args.get("replace"):
        return "overwrite"
    return "ignore" if tree.args.get("exists") else "errorifexists"


def _selected(statement: Statement) -> tuple[int, int]:
    """Return the text after the first AS outside parentheses."""
    depth, target = 0, statement.target
    assert target is not None
    for at, each in enumerate(statement.tokens):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(each.token_type, 0)
        if each.start >= target.end and depth == 0 and is_word(each, "AS"):
            return statement.tokens[at + 1].start, _end(statement)
    raise InvalidInputError(f"write AS before the query of CREATE TABLE {target.table}")
