"""Globs over object paths, compared with a matcher that tries every match."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.errors import InvalidInputError
from sparklake.strategies.path_globs import matches
from sparklake.udfs.purges import Patterns
from tests.support.cases import for_each
from tests.support.globs import fits

texts = st.text(st.sampled_from("ab/.[\n\\"), max_size=7)
globs = st.lists(st.sampled_from(["**", "*", "?", "a", "a*", "*.b", "", "[", "."]), min_size=1)


@for_each(
    ("glob", "inside", "outside"),
    [
        (
            "tables/**",
            ["tables/a", "tables/a/b/c", "tables/"],
            ["tables", "atables/a", "x/tables/a"],
        ),
        ("*.csv", ["a.csv", ".csv"], ["a/b.csv", "a.csvx", "acsv"]),
        ("**/*.csv", ["a.csv", "a/b.csv", "a/b/c.csv", "/a.csv"], ["a/b.txt"]),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b", "a//b"], ["ab", "a/xb", "a/b/c"]),
        ("**", ["a", "a/b", "\n"], []),
        ("day=?/*", ["day=1/x"], ["day=12/x", "day=//x", "day=1/x/y"]),
        ("a.c", ["a.c"], ["abc"]),
        ("[ab]", ["[ab]"], ["a"]),
        ("Ü*", ["Über"], ["ü"]),
    ],
)
def test_a_glob_matches_paths(glob: str, inside: list[str], outside: list[str]) -> None:
    assert [path for path in inside if not matches(glob, path.encode())] == []
    assert [path for path in outside if matches(glob, path.encode())] == []


@given(globs, texts)
def test_a_glob_agrees_with_an_exhaustive_matcher(parts: list[str], path: str) -> None:
    glob = "/".join(parts) or "*"
    assert matches(glob, path.encode()) == fits(glob, path)


def test_keys_that_are_not_utf8_are_matched() -> None:
    assert matches("raw/*.csv", b"raw/\xff\xfe.csv")
    assert matches("raw/?.csv", b"raw/\xff.csv")
    assert not matches("raw/*.csv", b"raw/\xff/a.csv")


@pytest.mark.parametrize("glob", ["", "a**", "**b/c", "a/***", "\udcff", "a\0"])
def test_an_invalid_glob_is_rejected(glob: str) -> None:
    with pytest.raises(InvalidInputError):
        matches(glob, b"a")


@pytest.mark.timeout(60)
def test_no_glob_takes_exponential_time() -> None:
    glob = "t/" + "*a" * 30 + "b"
    inside, outside = f"t/{'a' * 200}b", f"t/{'a' * 200}"
    assert [path in Patterns((glob,)) for path in (inside, outside)] == [True, False]
    assert [matches(glob, path.encode()) for path in (inside, outside)] == [True, False]
