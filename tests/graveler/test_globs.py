"""Globs agree with plain matchers, and never take exponential time."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.graveler.globs import name_pattern, path_pattern
from tests.support.cases import for_each

Pattern = Callable[[str], re.Pattern[str]]

globs = st.text("ab*?.", max_size=8)
names = st.text("ab.\n", max_size=8)
folders = st.sampled_from(
    ["**", "**", "*", "?", "a", "b", "*a", "a*", "a*b", "*a*b*", "*a*a", "", "[", "."]
)
path_globs = st.lists(folders, min_size=1, max_size=6).map("/".join)
paths = st.lists(st.text("ab.[\n", max_size=3), min_size=1, max_size=6).map("/".join)


def backtracking(glob: str, one: str) -> str:
    """Return the plain regular expression of a glob; it may take exponential time."""
    return "".join({"*": f"{one}*", "?": one}.get(each) or re.escape(each) for each in glob)


@given(globs, names)
def test_a_name_pattern_matches_like_a_regular_expression(glob: str, name: str) -> None:
    plain = re.compile(backtracking(glob, "."), re.DOTALL)
    assert bool(name_pattern(glob).fullmatch(name)) == bool(plain.fullmatch(name))


@given(path_globs, paths)
def test_a_path_pattern_matches_like_a_regular_expression(glob: str, path: str) -> None:
    *parents, last = glob.split("/")
    plain = [
        "(?:[^/]*/)*" if each == "**" else f"{backtracking(each, '[^/]')}/" for each in parents
    ]
    plain.append(".*" if last == "**" else backtracking(last, "[^/]"))
    expected = re.compile("".join(plain), re.DOTALL).fullmatch(path)
    assert bool(path_pattern(glob).fullmatch(path)) == bool(expected)


@pytest.mark.timeout(60)
@for_each("text", ["a" * 1000, "a/" * 500, "aaaa/" * 200, "ab" * 500 + "a"])
@for_each("end", ["", "b", "?", "*", "c*", "/**", "/**/b"])
@for_each(
    "start", ["*a" * 30, "*?" * 30, "**/a/" * 30, "**/*a*a*/" * 30, "**/?*?*/" * 30, "*/" * 30]
)
def test_no_glob_takes_exponential_time(start: str, end: str, text: str) -> None:
    glob = start + end
    name_pattern(glob).fullmatch(text)
    path_pattern(glob).fullmatch(text)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("pattern", [name_pattern, path_pattern])
def test_a_pathological_glob_still_matches(pattern: Pattern) -> None:
    assert pattern("*a" * 30 + "b").fullmatch("a" * 500 + "b")
    assert not pattern("*a" * 30 + "b").fullmatch("a" * 500)
    assert not pattern("*a" * 30).fullmatch("a" * 29)
    assert pattern("*a" * 30).fullmatch("a" * 30)
