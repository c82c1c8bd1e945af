"""The grammar of statements on refs."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sparklake.errors import InvalidInputError
from sparklake.sql.ref_statements import (
    FORMS,
    RefStatement,
    check_first_word,
    check_first_words,
    parse_ref_statement,
    repository_of,
)
from sparklake.sql.session import _RUNS
from sparklake.uri import RefUri
from tests.support.cases import for_each

PARSED: dict[str, dict[str, Any]] = {
    "USE lakefs.lake": {"verb": "USE", "repository": "lake"},
    "use LakeFS.`my-lake`.`v1.0`;": {"verb": "USE", "repository": "my-lake", "refs": ["v1.0"]},
    "CREATE BRANCH dev": {"verb": "CREATE BRANCH", "repository": None, "refs": ["dev"]},
    "create /* x */ branch if not exists `fix-1` from `main~1` in lakefs.lake -- y": {
        "verb": "CREATE BRANCH",
        "repository": "lake",
        "refs": ["fix-1"],
        "clauses": {"FROM": "main~1"},
        "has_condition": True,
    },
    "DROP BRANCH IF EXISTS lakefs.lake.dev": {
        "verb": "DROP BRANCH",
        "repository": "lake",
        "refs": ["dev"],
        "has_condition": True,
    },
    "COMMIT MESSAGE 'a; \\'b\\' 🎉'": {
        "verb": "COMMIT",
        "repository": None,
        "clauses": {"MESSAGE": "a; 'b' 🎉"},
    },
    "COMMIT MESSAGE 'it''s '''' \"late\"' META a = \"x\"\"y'z\" ": {
        "verb": "COMMIT",
        "repository": None,
        "clauses": {"MESSAGE": "it's '' \"late\""},
        "metadata": {"a": "x\"y'z"},
    },
    "COMMIT `message` META a = '1', b.c = \"2\", 'd e' = r'\\3' MESSAGE 'm'": {
        "verb": "COMMIT",
        "repository": None,
        "refs": ["message"],
        "clauses": {"MESSAGE": "m"},
        "metadata": {"a": "1", "b.c": "2", "d e": "\\3"},
    },
    "commit if needed dev message 'm'": {
        "verb": "COMMIT",
        "repository": None,
        "refs": ["dev"],
        "clauses": {"MESSAGE": "m"},
        "has_condition": True,
    },
    "MERGE BRANCH a INTO b STRATEGY 'source-wins'": {
        "verb": "MERGE BRANCH",
        "repository": None,
        "refs": ["a"],
        "clauses": {"INTO": "b", "STRATEGY": "source-wins"},
    },
    "SHOW COMMITS LIMIT 3": {"verb": "SHOW COMMITS", "repository": None, "clauses": {"LIMIT": "3"}},
    "SHOW CHANGES dev IN lakefs.lake": {
        "verb": "SHOW CHANGES",
        "repository": "lake",
        "refs": ["dev"],
    },
    "DIFF lakefs.lake.main v1": {"verb": "DIFF", "repository": "lake", "refs": ["main", "v1"]},
}


@for_each(("text", "fields"), PARSED.items())
def test_statements_are_parsed(text: str, fields: dict[str, Any]) -> None:
    assert parse_ref_statement(text) == RefStatement(**fields)


@for_each(
    "text",
    [
        "CREATE BRANCH",
        "CREATE BRANCH fix-1",
        "CREATE BRANCH 'dev'",
        "CREATE BRANCH dev FROM",
        "CREATE BRANCH dev FROM main FROM v1",
        "CREATE BRANCH IF EXISTS dev",
        "CREATE BRANCH lakefs.lake.a.b",
        "CREATE BRANCH other.lake.dev",
        "CREATE BRANCH dev IN lake",
        "CREATE BRANCH lakefs.lake.dev FROM lakefs.other.main",
        "COMMIT",
        "COMMIT dev 'message'",
        "COMMIT MESSAGE message",
        "COMMIT MESSAGE 'it' 's'",
        "COMMIT MESSAGE 'it'\"s\"",
        "COMMIT MESSAGE 'a' META",
        "COMMIT MESSAGE 'a' META b",
        "COMMIT MESSAGE 'a' META b = c",
        "COMMIT MESSAGE 'a'; DROP BRANCH dev",
        "MERGE BRANCH dev",
        "SHOW BRANCHES dev",
        "SHOW COMMITS LIMIT x",
        "SHOW COMMITS LIMIT 1.5",
        "SHOW COMMITS LIMIT '; --'",
        "DIFF main",
        "DIFF main, dev",
        "USE lakefs.lake.main.x",
        "USE lakefs.lake main",
        "COMMIT MESSAGE 'a' -- \\\n META b = 'c'",
    ],
)
def test_malformed_statements_are_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_ref_statement(text)


def test_errors_contain_the_grammar() -> None:
    with pytest.raises(InvalidInputError) as error:
        parse_ref_statement("COMMIT")
    form = (
        "COMMIT [IF NEEDED] [REF] [IN lakefs.REPOSITORY] MESSAGE 'TEXT' [META KEY = 'VALUE', ...]"
    )
    assert form in str(error.value)


def test_errors_have_the_position_of_the_word() -> None:
    with pytest.raises(InvalidInputError, match="near 'BY', line 2, column 15") as error:
        parse_ref_statement("COMMIT MESSAGE 'a'\n META b = 'c' BY 'd'")
    assert "docs/" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        (
            "\n COMIT MESSAGE 'x'",
            "'COMIT' at line 2, column 2 is no statement: did you mean COMMIT",
        ),
        ("CREATE BRANHC dev", "did you mean CREATE BRANCH"),
        ("SHOW COMITS", "did you mean SHOW COMMITS"),
        ("MERGE BRANCHES a INTO b", "did you mean MERGE BRANCH"),
    ],
)
def test_similar_words_are_suggested(text: str, near: str) -> None:
    with pytest.raises(InvalidInputError, match=re.escape(near)):
        check_first_words(text)


@pytest.mark.parametrize("text", ["SHOW TABLES", "CREATE TABLE x", "MERGE INTO x", "SELEC 1", ""])
def test_others_are_not(text: str) -> None:
    check_first_words(text)


def test_a_misspelled_first_word_is_rejected() -> None:
    for text, near in {
        "SELCT * FROM lakefs.lake.main.t": "'SELCT' at line 1, column 1",
        " \n udpate t SET a = 1": "did you mean UPDATE?",
        "CREAT BRANCH x": "did you mean CREATE BRANCH",
    }.items():
        with pytest.raises(InvalidInputError, match=re.escape(near)):
            check_first_word(text)
    for text in ("SELECT 1", "(SELECT 1)", "`selct`", "KILL 1", "", "-- SELCT"):
        check_first_word(text)


def test_every_statement_runs() -> None:
    assert {" ".join(each.words) for each in FORMS} | {"USE"} == set(_RUNS)


def test_the_repository_is_that_of_the_statement_or_in_use() -> None:
    own = parse_ref_statement("SHOW TAGS IN lakefs.lake")
    assert own is not None
    assert repository_of(own, RefUri("other", "main")) == "lake"
    short = parse_ref_statement("SHOW TAGS")
    assert short is not None
    assert repository_of(short, RefUri("other", "main")) == "other"
    with pytest.raises(InvalidInputError, match="needs a repository"):
        repository_of(short, None)
