"""URIs are taken as they are written, and a wrong one says what a right one looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import InvalidUriError
from sparklake.uri import (
    KeyUri,
    LakeUri,
    RefUri,
    object_uri,
    parse_uri,
    prefix_uri,
    ref_uri,
    repository_uri,
    same_repository,
)
from tests.support.cases import for_each

GOOD = [
    ("lakefs://lake", LakeUri("lake")),
    ("lakefs://lake/main", LakeUri("lake", "main")),
    ("lakefs://lake/main/", LakeUri("lake", "main", "")),
    ("lakefs://lake/main/a/b.csv", LakeUri("lake", "main", "a/b.csv")),
    ("lakefs://lake/main/a/", LakeUri("lake", "main", "a/")),
    ("lakefs://lake/main//a//b", LakeUri("lake", "main", "/a//b")),
    ("lakefs://lake/main/100%/a b?c#d", LakeUri("lake", "main", "100%/a b?c#d")),
    ("lakefs://lake/main/%2Fetc", LakeUri("lake", "main", "%2Fetc")),
    ("lakefs://lake/main/日本/é", LakeUri("lake", "main", "日本/é")),
    ("lakefs://lake/dev:joe-bugfix-1234", LakeUri("lake", "dev:joe-bugfix-1234")),
    ("lakefs://lake/v2.3/x", LakeUri("lake", "v2.3", "x")),
    ("lakefs://lake/main~3^2/x", LakeUri("lake", "main~3^2", "x")),
    ("lakefs://lake/main@/x", LakeUri("lake", "main@", "x")),
]

MALFORMED = [
    "",
    "lake",
    "lake/main",
    "/lake/main",
    "lakefs:/lake/main",
    "LAKEFS://lake/main",
    " lakefs://lake/main",
    "s3://lake/main",
    "lakefs://",
    "lakefs:///main",
    "lakefs://lake/",
    "lakefs://lake//key",
    "lakefs://la\0ke/main/a",
    "lakefs://lake/ma\0in/a",
    "lakefs+escaped://lake/main/%",
    "lakefs+escaped://lake/main/%ff",
    "escaped://lake/main/a",
    "lakefs://lake/main/\udcff",
]

repositories = st.from_regex(r"[a-z0-9][a-z0-9-]{2,62}", fullmatch=True)
refs = st.from_regex(r"[A-Za-z0-9_.:+=@~^-]+", fullmatch=True)
keys = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@for_each(("text", "uri"), GOOD)
def test_a_uri_is_verbatim(text: str, uri: LakeUri) -> None:
    assert parse_uri(text) == uri
    assert str(uri) == text


@given(repositories, st.none() | refs, st.none() | keys)
def test_a_uri_reads_back_as_it_was_written(
    repository: str, ref: str | None, key: str | None
) -> None:
    uri = LakeUri(repository, ref, key if ref is not None else None)
    assert parse_uri(str(uri)) == uri


def test_one_slash_is_named() -> None:
    for text in ("lakefs:/lake/main/a", "lakefs:lake/main/a"):
        with pytest.raises(
            InvalidUriError, match=r"needs two slashes.*write lakefs://lake/main/a$"
        ):
            parse_uri(text)


@for_each("text", MALFORMED)
def test_a_malformed_uri_is_named_with_a_right_one(text: str) -> None:
    for parse in (parse_uri, repository_uri, ref_uri, object_uri, prefix_uri):
        with pytest.raises(InvalidUriError, match="write lakefs://") as raised:
            parse(text)
        assert repr(text) in str(raised.value)
        assert raised.value.exit_code == 2


def test_each_kind_of_uri() -> None:
    assert repository_uri("lakefs://lake") == "lake"
    assert ref_uri("lakefs://lake/main~2") == RefUri("lake", "main~2")
    assert object_uri("lakefs://lake/main/a//b") == KeyUri("lake", "main", "a//b")
    assert prefix_uri("lakefs://lake/main") == KeyUri("lake", "main", "")
    assert prefix_uri("lakefs://lake/main/") == KeyUri("lake", "main", "")
    assert prefix_uri("lakefs://lake/main/a/") == KeyUri("lake", "main", "a/")
    for text in ("lakefs://lake/main", "lakefs://lake/dev:x^2"):
        assert str(ref_uri(text)) == text
    assert str(object_uri("lakefs://lake/main/a")) == "lakefs://lake/main/a"


@pytest.mark.parametrize("text", ["lakefs://lake/main", "lakefs://lake/main/a"])
def test_a_repository_has_no_ref(text: str) -> None:
    with pytest.raises(InvalidUriError, match=r"write lakefs://lake$"):
        repository_uri(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("lakefs://lake", "write lakefs://lake/main$"),
        ("lakefs://lake/dev/", "write lakefs://lake/dev$"),
        ("lakefs://lake/dev/a", "write lakefs://lake/dev, or lakefs://lake/dev-a, because"),
    ],
)
def test_a_ref_has_no_key(text: str, right: str) -> None:
    with pytest.raises(InvalidUriError, match=right):
        ref_uri(text)


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("lakefs://lake", "write lakefs://lake/main/KEY$"),
        ("lakefs://lake/dev", "write lakefs://lake/dev/KEY$"),
        ("lakefs://lake/dev/", "write lakefs://lake/dev/KEY$"),
    ],
)
def test_an_object_has_a_key(text: str, right: str) -> None:
    with pytest.raises(InvalidUriError, match=right):
        object_uri(text)


def test_a_prefix_has_a_ref() -> None:
    with pytest.raises(InvalidUriError, match=r"write lakefs://lake/main/PREFIX$"):
        prefix_uri("lakefs://lake")


def test_two_refs_are_of_one_repository() -> None:
    assert same_repository(RefUri("lake", "a"), RefUri("lake", "b")) == "lake"
    with pytest.raises(InvalidUriError, match="such as lakefs://lake/b"):
        same_repository(RefUri("lake", "a"), RefUri("pond", "b"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a%00b", "a\0b"),
        ("%2Fabs", "/abs"),
        ("/abs", "/abs"),
        ("a/%2E%2E/b%25", "a/../b%"),
        ("", ""),
    ],
)
def test_an_escaped_uri_has_a_percent_encoded_key(text: str, key: str) -> None:
    uri = parse_uri(f"lakefs+escaped://lake/main/{text}")
    assert uri == LakeUri("lake", "main", key) == parse_uri(str(uri))
    assert parse_uri("lakefs+escaped://lake") == LakeUri("lake")
