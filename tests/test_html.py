"""What notebooks show is escaped, and no longer than a screen."""

from __future__ import annotations

from collections.abc import Iterator

from sparklake._html import SHOWN, html_table


def test_text_of_users_is_no_html() -> None:
    shown = html_table("<b>&", ["<i>"], [{"<i>": "<script>"}, {"<i>": None}])
    assert "<caption>&lt;b&gt;&amp;</caption>" in shown
    assert "<th>&lt;i&gt;</th>" in shown
    assert "<tr><td>&lt;script&gt;</td></tr><tr><td></td></tr>" in shown


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
