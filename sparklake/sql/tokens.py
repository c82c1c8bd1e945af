"""Tokens of Spark SQL, and the statements in a script."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import TokenError

from sparklake.errors import InvalidInputError

CATALOG = "lakefs"
"""The first part of a lake table's name."""

STRINGS = {TokenType.STRING, TokenType.RAW_STRING}

# Spark continues such a comment on the next line, sqlglot does not.
_CONTINUED = re.compile(r"--[^\n]*\\\r?\n")
_MENTION = re.compile(CATALOG, re.IGNORECASE)


class _Tokenizer(Spark.Tokenizer):
    # By default, the text after some keywords is one token.
    COMMANDS = set()  # noqa: RUF012  (as declared)


def scan(text: str) -> list[Token]:
    """Split a text into tokens. Raises InvalidInputError if it may mention a lake table."""
    try:
        tokens: list[Token] = _Tokenizer(dialect=Spark()).tokenize(text)
    except TokenError as error:
        if _MENTION.search(text):
            raise InvalidInputError(
                f"cannot find the lake tables in {text!r}: it contains an unclosed string, name "
                "or comment"
            ) from error
        return []
    return _with_doubled_quotes(text, tokens)


def _with_doubled_quotes(text: str, tokens: Sequence[Token]) -> list[Token]:
    """Join the tokens of 'it''s', which are two for sqlglot."""
    joined: list[Token] = []
    for each in tokens:
        last = joined[-1] if joined else each
        if (
            last.end + 1 == each.start
            and last.token_type is each.token_type is TokenType.STRING
            and text[last.end] == text[each.start]
        ):
            both = f"{last.text}{text[each.start]}{each.text}"
            joined[-1] = Token(TokenType.STRING, both, each.line, each.col, last.start, each.end)
        else:
            joined.append(each)
    return joined


def check_comments(text: str, tokens: Sequence[Token]) -> None:
    """Reject a line comment that Spark and sqlglot end at different places."""
    start, ends = 0, dict[int, int]()
    for each in tokens:
        ends.setdefault(each.start, each.end + 1)
    for end in (*(each.start for each in tokens), len(text)):
        if _CONTINUED.search(text, start, end):
            raise InvalidInputError(
                "a comment after -- must not end in a backslash: Spark continues it on the next "
                "line. Remove the backslash"
            )
        start = ends.get(end, end)


def is_word(token: Token, *words: str) -> bool:
    """Return whether a token is one of these keywords, unquoted."""
    is_text = token.token_type is TokenType.IDENTIFIER or token.token_type in STRINGS
    return not is_text and token.text.upper() in words


def position(text: str, at: int) -> str:
    return f"line {text.count(chr(10), 0, at) + 1}, column {at - text.rfind(chr(10), 0, at)}"


def mentions_lake(tokens: Sequence[Token]) -> bool:
    """Return whether a name that starts with `lakefs.` occurs outside strings and comments."""
    kinds = [None, *(each.token_type for each in tokens)]
    return any(
        each.token_type not in STRINGS
        and each.text.lower() == CATALOG
        and after.token_type is TokenType.DOT
        and before is not TokenType.DOT
        for before, (each, after) in zip(kinds, pairwise(tokens), strict=False)
    )


def split(script: str) -> list[str]:
    """Split a script at its semicolons. A compound statement (BEGIN ... END) is not split."""
    tokens = scan(script)
    if not tokens:
        return [script] if script.strip() else []
    ends = [each.start for each in tokens if each.token_type is TokenType.SEMICOLON]
    if ends:
        check_comments(script, tokens)
    return list(_statements(script, tokens, ends))


def _statements(script: str, tokens: Sequence[Token], ends: Sequence[int]) -> Iterator[str]:
    start = 0
    for end in (*ends, len(script)):
        own = [each for each in tokens if start <= each.start < end]
        if own and is_word(own[0], "BEGIN"):
            yield script[start:]
            return
        if own:
            yield script[start:end]
        start = end + 1
