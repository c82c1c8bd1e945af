"""What notebooks show is escaped, and no longer than a screen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sparklake._html import SHOWN, html_table


def test_text_of_users_is_no_html() -> None:
    shown = html_table("<b>&", ["<i>"], [{"<i>": "<script>"}, {"<i>": None}])
    assert "<caption>&lt;b&gt;&amp;</caption>" in shown
    assert "<th>&lt;i&gt;</th>" in shown
    assert "<tr><td>&lt;script&gt;</td></tr><tr><td></td></tr>" in shown


@pytest.mark.parametrize("digest", ["0f" * 16, "0f" * 32, "0f" * 16 + "-12"])
def test_digests_show_eight_digits_and_have_all(digest: str) -> None:
    shown = html_table("a", ["checksum"], [{"checksum": digest}])
    assert f'<td title="{digest}"><code>0f0f0f0f</code></td>' in shown


@pytest.mark.parametrize("text", ["0f" * 15, "0F" * 16, f"xxh128:{'0f' * 16}", f"/{'0f' * 16}"])
def test_other_texts_are_shown_as_they_are(text: str) -> None:
    assert f"<td>{text}</td>" in html_table("a", ["checksum"], [{"checksum": text}])


def test_types_of_changes_have_different_colours() -> None:
    types = ["added", "removed", "changed", "conflict"]
    rows = [{"type": each, "path": "added"} for each in types]
    shown = html_table("a", ["type", "path"], rows)
    colours = {
        each: shown.partition(f"<b>{each}</b>")[0].rpartition("color: ")[2] for each in types
    }
    assert len(set(colours.values())) == len(types)
    assert shown.count("<td>added</td>") == len(types)


def test_no_more_rows_are_taken_than_are_shown_and_one() -> None:
    taken = 0

    def rows() -> Iterator[dict[str, int]]:
        nonlocal taken
        for taken in range(1, 1000):
            yield {"n": taken}

    shown = html_table("n", ["n"], rows())
    assert shown.count("<td>") == SHOWN
    assert f"n (the first {SHOWN})" in shown
    assert taken == SHOWN + 1
