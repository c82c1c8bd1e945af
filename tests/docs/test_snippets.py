"""How pages are read: every fence runs, is a file or an output, or has a reason."""

from __future__ import annotations

import pytest

from tests.docs.pages import PAGES, Kind, SnippetError, parse_page, read_page
from tests.docs.scene import is_shown
from tests.support.cases import for_each


def fence(language: str, text: str = "x") -> str:
    return f"```{language}\n{text}\n```\n"


@for_each("name", PAGES)
def test_every_fence_is_understood(name: str) -> None:
    read_page(name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (fence("rust"), "language 'rust' cannot run"),
        (fence(""), "language '' cannot run"),
        (fence("yaml"), "say what this is"),
        (f"<!-- not run: -->\n{fence('sh')}", "give the reason"),
        (f"<!-- skip -->\n{fence('sh')}", "unknown comment"),
        (f"<!-- where: x -->\n{fence('sh')}", "where NAME: command"),
        ("<!-- not run: a good reason -->\n", "no fence follows"),
        (
            f"<!-- not run: a good reason -->\n{fence('sh', 'true | sparklake ls a --no')}",
            "No such option: --no",
        ),
    ],
)
def test_what_is_not_understood_is_refused(text: str, words: str) -> None:
    with pytest.raises(SnippetError, match=words):
        parse_page("page.md", text)


def test_the_steps_of_a_page_are_in_order() -> None:
    text = (
        "<!-- needs: spark -->\n<!-- setup: a; b -->\n"
        f"1. First\n\n   ```sh\n   one\n     two\n   ```\n<!-- exits with 3 -->\n{fence('sh')}"
        f"<!-- where RUN: echo 1 -->\n{fence('python')}<!-- not run: needs a cluster -->\n"
        f"{fence('yaml')}{fence('toml', '# conf/a.toml')}<!-- output -->\n{fence('text')}"
    )
    page = parse_page("page.md", text)
    assert page.needs == {"spark"}
    assert page.reasons == ("needs a cluster",)
    assert [(each.kind, each.text, each.argument) for each in page.steps] == [
        (Kind.SHELL, "a; b", ""),
        (Kind.SHELL, "one\n  two", ""),
        (Kind.SHELL, "x", "3"),
        (Kind.WHERE, "echo 1", "RUN"),
        (Kind.PYTHON, "x", ""),
        (Kind.FILE, "# conf/a.toml", "conf/a.toml"),
        (Kind.OUTPUT, "x", ""),
    ]
    assert not page.submits
    assert parse_page("page.md", fence("sh", "spark-submit a.py")).submits


def test_outputs_are_compared_without_ids_and_times() -> None:
    output = "commit 0123456789abcdef\nat 2026-01-01 10:00:00\n3 added\n"
    assert is_shown("commit fedcba9876543210\n3 added", output)
    assert is_shown("at 2024-05-31 01:02:03\n... added", output)
    assert not is_shown("4 added", output)
    assert not is_shown("3 added\ncommit fedcba9876543210", output)
