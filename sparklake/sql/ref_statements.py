"""Statements on refs: CREATE BRANCH, COMMIT, MERGE BRANCH, SHOW COMMITS, DIFF and others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import Token, TokenType

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


@dataclass(frozen=True, slots=True)
class Form:
    """The syntax of a statement: words, refs, then clauses in any order.

    `condition` is optional, such as IF NOT EXISTS. With `optional`, the ref may be missing: it is
    the one in use.
    """

    words: tuple[str, ...]
    clauses: tuple[str, ...]
    refs: int = 0
    condition: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: bool = False


_IF_EXISTS, _IF_MISSING, _IF_NEEDED = ("IF", "EXISTS"), ("IF", "NOT", "EXISTS"), ("IF", "NEEDED")

FORMS = (
    Form(("CREATE", "BRANCH"), ("IN", "FROM"), 1, _IF_MISSING),
    Form(("DROP", "BRANCH"), ("IN",), 1, _IF_EXISTS),
    Form(("CREATE", "TAG"), ("IN", "FROM"), 1, _IF_MISSING),
    Form(("DROP", "TAG"), ("IN",), 1, _IF_EXISTS),
    Form(("COMMIT",), ("IN", "MESSAGE", "META"), 1, _IF_NEEDED, ("MESSAGE",), optional=True),
    Form(("MERGE", "BRANCH"), ("INTO", "IN", "STRATEGY", "MESSAGE", "META"), 1, (), ("INTO",)),
    Form(("SHOW", "BRANCHES"), ("IN",)),
    Form(("SHOW", "TAGS"), ("IN",)),
    Form(("SHOW", "COMMITS"), ("IN", "LIMIT"), 1, optional=True),
    Form(("SHOW", "CHANGES"), ("IN",), 1, optional=True),
    Form(("DIFF",), ("IN",), 2),
)

_OF_REFS = ("FROM", "INTO")
_NEAR, _NEAR_WORD = 0.85, 0.8
"""The ratios of the letters that two similar statements, or words, share."""

_FIRST_WORDS = [
    "ADD",
    "ALTER",
    "ANALYZE",
    "BEGIN",
    "CACHE",
    "CALL",
    "CLEAR",
    "COMMENT",
    "COMMIT",
    "CONVERT",
    "COPY",
    "CREATE",
    "DECLARE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DIFF",
    "DROP",
    "EXECUTE",
    "EXPLAIN",
    "FROM",
    "FSCK",
    "GENERATE",
    "GRANT",
    "INSERT",
    "LIST",
    "LOAD",
    "MAP",
    "MERGE",
    "MSCK",
    "OPTIMIZE",
    "REDUCE",
    "REFRESH",
    "REORG",
    "REPAIR",
    "REPLACE",
    "RESET",
    "RESTORE",
    "REVOKE",
    "SELECT",
    "SET",
    "SHOW",
    "TABLE",
    "TRUNCATE",
    "UNCACHE",
    "UPDATE",
    "USE",
    "VACUUM",
    "VALUES",
    "WITH",
]
"""The first words of statements: Spark's, those on refs, and those of Delta and Iceberg."""


@dataclass(frozen=True, slots=True)
class RefStatement:
    """A parsed statement. `verb` is its words, such as "CREATE BRANCH".

    `clauses` has the ref, text or number of each clause by its word.
    """

    verb: str
    repository: str | None
    refs: Sequence[str] = field(default_factory=list)
    clauses: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    has_condition: bool = False


def parse_ref_statement(text: str) -> RefStatement | None:
    """Parse a statement on refs, or return None for Spark's.

    Raises:
        InvalidInputError: The statement starts like one of these, but is malformed.
    """
    tokens = [each for each in scan(text) if each.token_type is not TokenType.SEMICOLON]
    if is_use(tokens) and mentions_lake(tokens[:3]):
        check_comments(text, tokens)
        return _Parser(text, tokens, Form(("USE",), ())).parse_use()
    for form in FORMS:
        if len(tokens) >= len(form.words) and all(map(is_word, tokens, form.words)):
            check_comments(text, tokens)
            return _Parser(text, tokens, form).parse()
    return None


def check_first_words(text: str) -> None:
    """Reject a statement that Spark does not know, if it starts almost like one on refs."""
    words = [each.text.upper() for each in scan(text)[:2]]
    known = {" ".join(each.words): each for each in FORMS}
    # "SHOW TABLES" is not "SHOW TAGS": one letter may differ.
    for start in (" ".join(words), *words[:1]):
        for near in get_close_matches(start, known, 1, _NEAR):
            raise InvalidInputError(
                f"{start!r} at {position(text, scan(text)[0].start)} is no statement: did you mean "
                f"{_usage(known[near])}?"
            )


def check_first_word(text: str) -> None:
    """Reject a statement whose first word is misspelled, before Spark starts."""
    first = next(iter(scan(text)), None)
    word = first.text.upper() if first and first.token_type is not TokenType.IDENTIFIER else ""
    if not first or not word.isalpha() or word in _FIRST_WORDS:
        return
    check_first_words(text)
    for near in get_close_matches(word, _FIRST_WORDS, 1, _NEAR_WORD):
        raise InvalidInputError(
            f"{first.text!r} at {position(text, first.start)} starts no statement: did you mean "
            f"{near}?"
        )


def is_use(tokens: Sequence[Token]) -> bool:
    return bool(tokens) and is_word(tokens[0], "USE")


class _Parser:
    def __init__(self, text: str, tokens: Sequence[Token], form: Form) -> None:
        self._script = text
        self._form = form
        self._rest = list(tokens[len(form.words) :])
        self._repository: str | None = None

    def parse_use(self) -> RefStatement:
        parts = self._name()
        if len(parts) not in (2, 3) or self._rest:
            raise self._error(f"USE {CATALOG}.REPOSITORY or USE {CATALOG}.REPOSITORY.REF")
        return RefStatement("USE", parts[1], parts[2:])

    def parse(self) -> RefStatement:
        form = self._form
        has_condition = bool(form.condition) and self._skip(*form.condition)
        is_left_out = not self._rest or is_word(self._rest[0], *form.clauses)
        count = 0 if form.optional and is_left_out else form.refs
        refs = [self._ref() for _ in range(count)]
        clauses: dict[str, str] = {}
        metadata: dict[str, str] = {}
        remaining = set(form.clauses)
        while self._rest:
            clause = self._rest[0].text.upper()
            if clause not in remaining or not self._skip(clause):
                raise self._error()
            remaining.remove(clause)
            if clause == "IN":
                self._ref(is_repository=True)
            elif clause == "META":
                metadata = self._pairs()
            else:
                clauses[clause] = self._ref() if clause in _OF_REFS else self._text(clause)
        if remaining.intersection(form.required):
            raise self._error()
        verb = " ".join(form.words)
        return RefStatement(verb, self._repository, refs, clauses, metadata, has_condition)

    def _error(self, usage: str | None = None) -> InvalidInputError:
        near = "at its end"
        if self._rest:
            first = self._rest[0]
            near = f"near {first.text!r}, {position(self._script, first.start)}"
        return InvalidInputError(
            f"{' '.join(self._form.words)}: unexpected syntax {near}. Write "
            f"{usage or _usage(self._form)}, with names such as `fix-1` or `main~1` in "
            f"backquotes, texts in quotes, and REF as a name or {CATALOG}.REPOSITORY.REF"
        )

    def _next_is(self, *kinds: TokenType) -> bool:
        return bool(self._rest) and self._rest[0].token_type in kinds

    def _skip(self, *words: str) -> bool:
        matches = len(self._rest) >= len(words) and all(map(is_word, self._rest, words))
        if matches:
            del self._rest[: len(words)]
        return matches

    def _take(self, *kinds: TokenType) -> str:
        if not self._next_is(*kinds):
            raise self._error()
        return self._rest.pop(0).text

    def _name(self) -> list[str]:
        """Take a name: one part, or several joined by dots."""
        parts: list[str] = []
        while not parts or self._next_is(TokenType.DOT):
            if parts:
                self._rest.pop(0)
            is_plain = bool(self._rest) and re.fullmatch(r"\w+", self._rest[0].text)
            if not is_plain or self._next_is(*STRINGS):
                parts.append(self._take(TokenType.IDENTIFIER))
            else:
                parts.append(self._rest.pop(0).text)
        return parts

    def _ref(self, *, is_repository: bool = False) -> str:
        """Take a ref, or a repository, and note its repository."""
        parts = self._name()
        if len(parts) == 1 and not is_repository:
            return parts[0]
        if len(parts) != 3 - is_repository or parts[0].lower() != CATALOG:
            raise self._error()
        if self._repository not in (None, parts[1]):
            raise InvalidInputError(
                f"{' '.join(self._form.words)} has two repositories, {self._repository!r} and "
                f"{parts[1]!r}: use refs of one"
            )
        self._repository = parts[1]
        return parts[-1]

    def _text(self, clause: str) -> str:
        if clause != "LIMIT":
            return self._take(*STRINGS)
        text = self._take(TokenType.NUMBER)
        if not text.isdecimal():
            raise self._error()
        return text

    def _pairs(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        while not pairs or self._next_is(TokenType.COMMA):
            if pairs:
                self._rest.pop(0)
            is_text = self._next_is(*STRINGS)
            key = self._take(*STRINGS) if is_text else ".".join(self._name())
            self._take(TokenType.EQ)
            pairs[key] = self._take(*STRINGS)
        return pairs


def _usage(form: Form) -> str:
    values = {
        "IN": f"{CATALOG}.REPOSITORY",
        "MESSAGE": "'TEXT'",
        "META": "KEY = 'VALUE', ...",
        "STRATEGY": "'NAME'",
        "LIMIT": "NUMBER",
    }
    condition = [f"[{' '.join(form.condition)}]"] if form.condition else []
    clauses = [(each, f"{each} {values.get(each, 'REF')}") for each in form.clauses]
    syntax = [text if each in form.required else f"[{text}]" for each, text in clauses]
    ref = "[REF]" if form.optional else "REF"
    return " ".join([*form.words, *condition, *[ref] * form.refs, *syntax])


def repository_of(statement: RefStatement, place: RefUri | None) -> str:
    """Return a statement's repository. Raises InvalidInputError if none is in use."""
    repository = statement.repository or (place and place.repository)
    if not repository:
        raise InvalidInputError(
            f"{statement.verb} needs a repository: write IN {CATALOG}.REPOSITORY, or first USE "
            f"{CATALOG}.{quoted('my-lake')}"
        )
    return repository
