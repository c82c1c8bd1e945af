"""Statements on refs: CREATE BRANCH, COMMIT, MERGE BRANCH, SHOW COMMITS, DIFF and others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import Token, TokenType

from sparklake.errors import InvalidInputError
from sparklake.sql.statements import Place, quoted
from sparklake.sql.tokens import CATALOG, STRINGS, check_comments, is_word, mentions_lake, scan


@dataclass(frozen=True, slots=True)
class Form:
    """The syntax of a statement: words, refs, then clauses in any order.

    `condition` is IF EXISTS or IF NOT EXISTS. With `optional`, the ref may be missing: it is the
    one in use.
    """

    words: tuple[str, ...]
    clauses: tuple[str, ...]
    refs: int = 0
    condition: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    optional: bool = False


_IF_EXISTS, _IF_MISSING = ("IF", "EXISTS"), ("IF", "NOT", "EXISTS")

FORMS = (
    Form(("CREATE", "BRANCH"), ("IN", "FROM"), 1, _IF_MISSING),
    Form(("DROP", "BRANCH"), ("IN",), 1, _IF_EXISTS),
    Form(("CREATE", "TAG"), ("IN", "FROM"), 1, _IF_MISSING),
    Form(("DROP", "TAG"), ("IN",), 1, _IF_EXISTS),
    Form(("COMMIT",), ("IN", "MESSAGE", "META"), 1, required=("MESSAGE",), optional=True),
    Form(("MERGE", "BRANCH"), ("INTO", "IN", "STRATEGY", "MESSAGE", "META"), 1, (), ("INTO",)),
    Form(("SHOW", "BRANCHES"), ("IN",)),
    Form(("SHOW", "TAGS"), ("IN",)),
    Form(("SHOW", "COMMITS"), ("IN", "LIMIT"), 1, optional=True),
    Form(("SHOW", "CHANGES"), ("IN",), 1, optional=True),
    Form(("DIFF",), ("IN",), 2),
)

_OF_REFS = ("FROM", "INTO")


@dataclass(frozen=True, slots=True)
class OwnStatement:
    """A parsed statement. `verb` is its words, such as "CREATE BRANCH".

    `refs` are the leading ones; those of clauses are in `places` by the clause's word.
    """

    verb: str
    repository: str | None
    refs: Sequence[str] = field(default_factory=list)
    places: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    has_condition: bool = False


def parse_own(text: str) -> OwnStatement | None:
    """Parse a statement on refs, or return None for Spark's.

    Raises:
        InvalidInputError: The statement starts like one of these, but is malformed.
    """
    tokens = [each for each in scan(text) if each.token_type is not TokenType.SEMICOLON]
    if len(tokens) > 1 and is_word(tokens[0], "USE") and mentions_lake(tokens[:3]):
        return _use(text, tokens)
    for form in FORMS:
        size = len(form.words)
        if len(tokens) >= size and all(map(is_word, tokens, form.words)):
            check_comments(text, tokens)
            return _Parser(tokens, form).parse()
    return None


def find_use(text: str) -> bool:
    """Return whether a statement of Spark's changes its schema, and so ends `USE`."""
    tokens = scan(text)
    return bool(tokens) and is_word(tokens[0], "USE")


def _use(text: str, tokens: Sequence[Token]) -> OwnStatement:
    check_comments(text, tokens)
    parser = _Parser(tokens, Form(("USE",), ()))
    parts = parser.name()
    if len(parts) not in (2, 3) or parser.rest:
        raise parser.error(f"USE {CATALOG}.REPOSITORY or USE {CATALOG}.REPOSITORY.REF")
    return OwnStatement("USE", parts[1], parts[2:])


class _Parser:
    def __init__(self, tokens: Sequence[Token], form: Form) -> None:
        self.form = form
        self.rest = list(tokens[len(form.words) :])
        self._repository: str | None = None

    def parse(self) -> OwnStatement:
        form = self.form
        has_condition = bool(form.condition) and self._skip(*form.condition)
        is_left_out = not self.rest or is_word(self.rest[0], *form.clauses)
        count = 0 if form.optional and is_left_out else form.refs
        refs = [self._ref() for _ in range(count)]
        places: dict[str, str] = {}
        texts: dict[str, str] = {}
        metadata: dict[str, str] = {}
        missing = set(form.required)
        remaining = list(form.clauses)
        while self.rest:
            clause = self.rest[0].text.upper()
            if clause not in remaining or not is_word(self.rest[0], clause):
                raise self.error()
            remaining.remove(clause)
            missing.discard(clause)
            self.rest.pop(0)
            if clause == "IN":
                self._in()
            elif clause == "META":
                metadata = self._pairs()
            elif clause in _OF_REFS:
                places[clause] = self._ref()
            else:
                texts[clause] = self._text(clause)
        if missing:
            raise self.error()
        verb = " ".join(form.words)
        return OwnStatement(
            verb=verb,
            repository=self._repository,
            refs=refs,
            places=places,
            texts=texts,
            metadata=metadata,
            has_condition=has_condition,
        )

    def error(self, usage: str | None = None) -> InvalidInputError:
        near = f"near {self.rest[0].text!r}" if self.rest else "at its end"
        start = " ".join(self.form.words)
        return InvalidInputError(
            f"{start}: unexpected syntax {near}. Write {usage or _usage(self.form)}, with names "
            "such as `fix-1` or `main~1` in backquotes, and texts in quotes"
        )

    def _skip(self, *words: str) -> bool:
        matches = len(self.rest) >= len(words) and all(map(is_word, self.rest, words))
        if matches:
            del self.rest[: len(words)]
        return matches

    def name(self) -> list[str]:
        """Take a name: one part, or several joined by dots."""
        parts: list[str] = []
        while self.rest:
            token = self.rest[0]
            is_quoted = token.token_type is TokenType.IDENTIFIER
            is_plain = token.token_type not in STRINGS and token.text.replace("_", "a").isalnum()
            if not (is_quoted or is_plain):
                break
            parts.append(self.rest.pop(0).text)
            if not self._next_is(TokenType.DOT):
                return parts
            self.rest.pop(0)
        raise self.error()

    def _ref(self) -> str:
        parts = self.name()
        if len(parts) == 1:
            return parts[0]
        if len(parts) != 3 or parts[0].lower() != CATALOG:
            raise self.error(f"a ref as REF or {CATALOG}.REPOSITORY.REF in {_usage(self.form)}")
        self._take(parts[1])
        return parts[2]

    def _in(self) -> None:
        parts = self.name()
        if len(parts) != 2 or parts[0].lower() != CATALOG:
            raise self.error(f"IN {CATALOG}.REPOSITORY")
        self._take(parts[1])

    def _take(self, repository: str) -> None:
        if self._repository not in (None, repository):
            raise InvalidInputError(
                f"{' '.join(self.form.words)} has two repositories, {self._repository!r} and "
                f"{repository!r}: use refs of one"
            )
        self._repository = repository

    def _text(self, clause: str) -> str:
        kinds = {TokenType.NUMBER} if clause == "LIMIT" else STRINGS
        if clause == "STRATEGY":
            kinds = kinds | {TokenType.IDENTIFIER}
        if not self._next_is(*kinds) or (clause == "LIMIT" and not self.rest[0].text.isdecimal()):
            raise self.error()
        return self.rest.pop(0).text

    def _pairs(self) -> dict[str, str]:
        pairs: dict[str, str] = {}
        while True:
            key = self._text("") if self._next_is(*STRINGS) else ".".join(self.name())
            if not self._next_is(TokenType.EQ):
                raise self.error()
            self.rest.pop(0)
            pairs[key] = self._text("META")
            if not self._next_is(TokenType.COMMA):
                return pairs
            self.rest.pop(0)

    def _next_is(self, *kinds: TokenType) -> bool:
        return bool(self.rest) and self.rest[0].token_type in kinds


def _usage(form: Form) -> str:
    """Return the grammar of a statement."""
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


def repository_of(statement: OwnStatement, place: Place | None) -> str:
    """Return a statement's repository. Raises InvalidInputError if none is in use."""
    repository = statement.repository or (place and place.repository)
    if not repository:
        raise InvalidInputError(
            f"{statement.verb} needs a repository: write IN {CATALOG}.REPOSITORY, or first USE "
            f"{CATALOG}.{quoted('my-lake')}"
        )
    return repository
