"""Escaped keys: names that fit any folder and denote one key each."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from sparklake.graveler.keys import ESCAPED_FOLDER, escaped_key, exported_name, is_file_name
from sparklake.uri import parse_uri
from tests.support.cases import for_each


def unescaped_key(text: str) -> str:
    key = parse_uri(f"lakefs+escaped://lake/main/{text}").key
    assert key is not None
    return key


keys = st.one_of(
    st.text(alphabet="./a%\0é", min_size=1, max_size=8),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8),
)


@for_each(
    ("key", "escaped"),
    [
        ("/abs", "%2Fabs"),
        ("a/../b", "a%2F..%2Fb"),
        ("..", "%2E%2E"),
        ("a//b", "a%2F%2Fb"),
        ("//", "%2F%2F"),
        ("a/", "a%2F"),
        ("a\0b", "a%00b"),
        (".", "%2E"),
        ("a/./100%", "a%2F.%2F100%25"),
    ],
)
def test_a_key_is_escaped_and_unescaped(key: str, escaped: str) -> None:
    assert escaped_key(key) == escaped
    assert unescaped_key(escaped) == key


@given(keys)
@example("/")
@example("./..//")
def test_an_escaped_key_round_trips(key: str) -> None:
    escaped = escaped_key(key)
    assert unescaped_key(escaped) == key
    assert is_file_name(escaped, has_folders=True)


@given(keys, keys, st.booleans())
@example("a//b", ESCAPED_FOLDER + "a%2F%2Fb", True)
@example("/" * 20, "/" * 40, True)
@example("/" + "x" * 57, "/" + "x" * 57 + "~/y", True)
def test_different_keys_have_different_names(one: str, other: str, has_folders: bool) -> None:
    names = {exported_name(each, has_folders=has_folders) for each in (one, other)}
    assert len(names) == len({one, other})
    assert all(is_file_name(each, has_folders=has_folders) for each in names)
    assert all(len(part.encode()) <= 255 for each in names for part in each.split("/"))
    if all(each.startswith(ESCAPED_FOLDER) for each in names) and has_folders:
        assert not any(left.startswith(f"{right}/") for left in names for right in names)
