"""What notebooks show is escaped, and no longer than a screen."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

from sparklake._html import SHOWN, html_table


def test_text_of_users_is_no_html() -> None:
    shown = html_table("<b>&", ["<i>"], [{"<i>": "<script>"}, {"<i>": None}])
    assert "<caption>&lt;b&gt;&amp;</caption>" in shown
    assert texts(shown, "th") == ["&lt;i&gt;"]
    assert texts(shown, "td") == ["&lt;script&gt;", ""]


@pytest.mark.parametrize("digest", ["0f" * 16, "0f" * 32, "0f" * 16 + "-12"])
def test_digests_show_eight_digits_and_have_all(digest: str) -> None:
    shown = html_table("a", ["checksum"], [{"checksum": digest}])
    assert texts(shown, "code") == ["0f0f0f0f"]
    assert f'title="{digest}"' in shown


@pytest.mark.parametrize("text", ["0f" * 15, "0F" * 16, f"xxh128:{'0f' * 16}", f"/{'0f' * 16}"])
def test_other_texts_are_shown_as_they_are(text: str) -> None:
    assert texts(html_table("a", ["checksum"], [{"checksum": text}]), "td") == [text]


def test_types_of_changes_have_different_colours() -> None:
    types = ["added", "removed", "changed", "conflict"]
    rows = [{"type": each, "path": "added"} for each in types]
    shown = html_table("a", ["type", "path"], rows)
    colours = {
        each: shown.partition(f"<b>{each}</b>")[0].rpartition("color: ")[2] for each in types
    }
    assert len(set(colours.values())) == len(types)
    assert texts(shown, "td").count("added") == len(types)


def test_columns_without_values_are_left_out() -> None:
    rows = [{"a": 0, "b": None, "c": [], "d": ""}, {"a": 0, "b": None, "c": [], "d": "x"}]
    shown = html_table("a", ["a", "b", "c", "d"], rows)
    assert texts(shown, "th") == ["a", "d"]
    assert texts(shown, "td") == ["0", "", "0", "x"]
    assert texts(html_table("a", ["a", "b"], []), "th") == ["a", "b"]


def test_sides_show_their_values() -> None:
    side = {"size": 8, "checksum": "0f" * 16, "mtime": datetime(2026, 1, 2, tzinfo=timezone.utc)}
    shown = html_table("a", ["base"], [{"base": side}, {"base": {"size": None}}])
    assert texts(shown, "td") == ["8, 0f0f0f0f, 2026-01-02 00:00:00Z", ""]


def test_times_have_seconds() -> None:
    moment = datetime(1, 2, 3, 4, 5, 6, 789, tzinfo=timezone.utc)
    assert texts(html_table("a", ["a"], [{"a": moment}]), "td") == ["0001-02-03 04:05:06Z"]


def test_no_more_rows_are_taken_than_are_shown_and_one() -> None:
    taken = 0

    def rows() -> Iterator[dict[str, int]]:
        nonlocal taken
        for taken in range(1, 1000):
            yield {"n": taken}

    shown = html_table("n", ["n"], rows())
    assert len(texts(shown, "td")) == SHOWN
    assert f"n (the first {SHOWN})" in shown
    assert taken == SHOWN + 1


def texts(shown: str, tag: str) -> list[str]:
    """Return the contents of all elements of a kind."""
    return re.findall(rf"<{tag}\b[^>]*>(.*?)</{tag}>", shown)
