"""Names and ref expressions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparklake.errors import InvalidNameError, InvalidRefError
from sparklake.graveler.refs.names import (
    Ref,
    RefStep,
    StepKind,
    is_commit_id,
    is_commit_id_prefix,
    parse_ref,
    validate_branch_name,
    validate_repository_name,
    validate_tag_name,
)
from tests.support.cases import for_each

COMMIT_ID = "0123456789abcdef" * 4


def up(count: int) -> RefStep:
    return RefStep(StepKind.ANCESTOR, count)


def parent(count: int) -> RefStep:
    return RefStep(StepKind.PARENT, count)


@pytest.mark.parametrize(
    ("name", "other"), [("feature/x", "feature-x"), ("/a/b/c/", "a-b-c"), ("a/b c", None)]
)
def test_a_name_with_a_slash_is_rejected_with_a_suggestion(name: str, other: str | None) -> None:
    for validate in (validate_branch_name, validate_tag_name):
        with pytest.raises(InvalidNameError, match="'/' ends the ref") as raised:
            validate(name)
        assert str(raised.value).endswith(
            "rejects it" if other is None else f"rejects it: use {other!r}"
        )
        if other is not None:
            assert validate(other) == other


@for_each(
    ("text", "ref"),
    [
        ("main", Ref("main")),
        ("dev:joe-bugfix-1234", Ref("dev:joe-bugfix-1234")),
        ("v2.3", Ref("v2.3")),
        ("dev:jane-before-v2.3-merge", Ref("dev:jane-before-v2.3-merge")),
        (COMMIT_ID, Ref(COMMIT_ID)),
        ("0a1b", Ref("0a1b")),
        ("main~", Ref("main", (up(1),))),
        ("main~0", Ref("main", (up(0),))),
        ("main~1", Ref("main", (up(1),))),
        ("main~12", Ref("main", (up(12),))),
        ("main~007", Ref("main", (up(7),))),
        ("main^", Ref("main", (parent(1),))),
        ("main^0", Ref("main", (parent(0),))),
        ("main^2", Ref("main", (parent(2),))),
        ("main~~", Ref("main", (up(1), up(1)))),
        ("main^^", Ref("main", (parent(1), parent(1)))),
        ("main~2^2~", Ref("main", (up(2), parent(2), up(1)))),
        ("v2.3^~3", Ref("v2.3", (parent(1), up(3)))),
        ("main~999999999", Ref("main", (up(999_999_999),))),
        ("main~~2^0^3~0^", Ref("main", (up(1), up(2), parent(0), parent(3), up(0), parent(1)))),
        ("main@", Ref("main", (), committed=True)),
        ("main$", Ref("main", (), staged=True)),
    ],
)
def test_a_ref_expression_is_parsed(text: str, ref: Ref) -> None:
    assert parse_ref(text) == ref


@for_each(
    "text",
    [
        "",
        "~",
        "^",
        "@",
        "$",
        "~1",
        "@main",
        "$main",
        "main$$",
        "main$~",
        "main~$",
        "main^2$",
        "main$@",
        "main@$",
        "main$1",
        "main@1",
        "main^{}",
        "main^-1",
        "main^!",
        "main@@",
        "main@~",
        "main~@",
        "main^2@",
        "main~x",
        "main~-1",
        "main~1x",
        "main~1.5",
        "main~٣",
        "main^²",
        "main ",
        " main",
        "ma in",
        "main\n",
        "main~\n",
        "main~1\t",
        "main~1234567890",
        "main~" + "9" * 5000,
    ],
)
def test_a_malformed_ref_expression_is_rejected(text: str) -> None:
    with pytest.raises(InvalidRefError):
        parse_ref(text)


@pytest.mark.parametrize(
    ("text", "whole", "prefix"),
    [
        (COMMIT_ID, True, True),
        ("a", False, True),
        (COMMIT_ID[:-1], False, True),
        (COMMIT_ID + "0", False, False),
        (COMMIT_ID.upper(), False, False),
        ("", False, False),
        ("g", False, False),
        ("a\n", False, False),
    ],
)
def test_a_commit_id_is_lowercase_hexadecimal(text: str, whole: bool, prefix: bool) -> None:
    assert is_commit_id(text) is whole
    assert is_commit_id_prefix(text) is prefix


NAMES = [
    "main",
    "a",
    "_",
    "0",
    "dev:joe-bugfix-1234",
    "v2.3",
    "dev:jane-before-v2.3-merge",
    "a+b=c",
    "release_2024-01-01",
    "a.lock.b",
    "A" * 255,
    COMMIT_ID[:-1],
]
BAD_NAMES = [
    "",
    ".",
    "..",
    "-a",
    ".a",
    ":a",
    "a.",
    "a..b",
    "a.lock",
    "a/b",
    "a b",
    "a~",
    "a^",
    "a@",
    "a$",
    "a\n",
    "a\0",
    "ž",
    "a٣",
    "A" * 256,
    COMMIT_ID,
]


@for_each("validate", [validate_branch_name, validate_tag_name])
@for_each("name", NAMES)
def test_a_valid_name_is_accepted(validate: Callable[[str], str], name: str) -> None:
    assert validate(name) == name
    assert parse_ref(name) == Ref(name)


@for_each(("validate", "noun"), [(validate_branch_name, "branch"), (validate_tag_name, "tag")])
@for_each("name", BAD_NAMES)
def test_an_invalid_name_is_rejected(validate: Callable[[str], str], noun: str, name: str) -> None:
    with pytest.raises(InvalidNameError, match=f"cannot be the name of a {noun}"):
        validate(name)


@pytest.mark.parametrize("name", ["abc", "a-b", "0-1", "my-lake-2", "a" * 63])
def test_a_valid_repository_name_is_accepted(name: str) -> None:
    assert validate_repository_name(name) == name


@for_each("name", ["", "ab", "a" * 64, "-ab", "Abc", "a_b", "a.b", "a/b", "abc\n", "žluť", "a b"])
def test_an_invalid_repository_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidNameError, match="cannot be the name of a repository"):
        validate_repository_name(name)
