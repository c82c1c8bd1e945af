"""The site's generated reference, and its checks of links and names."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import pytest

from docs.website import __main__ as site
from docs.website import api
from docs.website.commands import commands_page
from docs.website.names import PAGE, names_page
from docs.website.parameters import with_arguments, wrong_meanings
from docs.website.search import entry
from docs.website.settings import settings_page
from docs.website.sources import BrokenLinkError, page_text, write_sources
from sparklake.cli.app import NOUNS, VERBS
from sparklake.config import ENVIRONMENT, environment_name, load_settings
from sparklake.settings_file import FileSettings
from tests.docs.pages import ROOT

INTERNAL = {
    "SPARKLAKE_JAVA",
    "SPARKLAKE_HOOK_",
    "SPARKLAKE_HOOKS_",
    "SPARKLAKE_COMPLETE",
    "SPARKLAKE_COMPLETE_WORD",
}
"""Variables that sparklake sets for its own processes, and beginnings of names."""


def test_every_public_name_has_a_docstring() -> None:
    assert api.undocumented() == []


def test_a_missing_docstring_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sparklake.lake.Lake.close.__doc__", None)
    monkeypatch.setattr("sparklake.connect.__doc__", None)
    assert {"sparklake.connect", "sparklake.Lake.close"} <= set(api.undocumented())


def test_the_page_of_commands_has_every_command() -> None:
    headings = re.findall(r"^##+ (.+)$", commands_page(), re.MULTILINE)
    assert set(VERBS) | set(NOUNS) <= set(headings)
    assert {"branch create", "purge resume"} <= set(headings)


def test_the_page_of_settings_has_every_setting_and_variable() -> None:
    page = settings_page()
    assert [name for name in FileSettings.__struct_fields__ if f"| `{name}`" not in page] == []
    code = "".join(path.read_text() for path in (ROOT / "sparklake").rglob("*.py"))
    used = set(re.findall(r"SPARKLAKE_[A-Z0-9_]+", code)) - INTERNAL
    assert {name for name in used if f"`{name}`" not in page} == set()


def test_variables_of_settings_are_read() -> None:
    names = {environment_name(each) for each in FileSettings.__struct_fields__} - {None}
    read = set(re.findall(r"SPARKLAKE_[A-Z0-9_]+", load_settings.__doc__ or ""))
    assert names == read - set(ENVIRONMENT)


def test_the_page_of_names_is_current() -> None:
    """After a change of a name: `python -m docs.website.names`, and a line in the changelog."""
    assert PAGE.read_text(encoding="utf-8") == names_page()


def test_links_lead_to_places_on_the_site() -> None:
    path = PurePosixPath("docs/design/x.md")
    text, linked = page_text(path, "[a](../spark.md#x) [b](../../conf/sparklake.toml)\n")
    assert text == "[a](../spark.md#x) [b](../files/conf/sparklake.toml)\n"
    assert linked == {PurePosixPath("docs/spark.md"), PurePosixPath("conf/sparklake.toml")}
    text, _ = page_text(path, "<!-- setup: x -->\n```sh\n[a](b) <!-- c -->\n```\n[j](../../conf)\n")
    assert text == "```sh\n[a](b) <!-- c -->\n```\nj\n"
    with pytest.raises(BrokenLinkError, match=r"docs/design/x\.md links to gone\.md"):
        page_text(path, "[a](gone.md)")


def test_the_navigation_has_every_page(tmp_path: Path) -> None:
    pages = write_sources(tmp_path)
    for each in ("commands", "settings", *(f"api/{name[:-3]}" for name, _ in api.api_pages())):
        place = tmp_path / "reference" / f"{each}.md"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    assert site.wrong_navigation(tmp_path, pages) == []
    (tmp_path / "spark.md").unlink()
    assert site.wrong_navigation(tmp_path, [*pages, PurePosixPath("new.md")]) == [
        "mkdocs.yml names spark.md, which does not exist",
        "the navigation in mkdocs.yml lacks the page new.md",
    ]


def test_every_parameter_has_a_meaning_and_every_meaning_is_used() -> None:
    assert list(wrong_meanings(api.functions())) == []
    wrong = list(wrong_meanings([("sparklake.branch.Branch.put", ["path", "unheard_of"])]))
    assert "docs/website/parameters.yaml lacks unheard_of" in wrong[0]
    assert "docs/website/parameters.yaml has the unused squash" in wrong


def test_parameters_are_a_section_before_the_examples() -> None:
    docstring = "Do it.\n\nExamples:\n    >>> 1\n    1"
    extended = with_arguments(docstring, "sparklake.branch.Branch.move", ["source", "unheard_of"])
    assert extended == ("Do it.\n\nArgs:\n    source: Path to move.\n\nExamples:\n    >>> 1\n    1")
    assert with_arguments(docstring, "f", []) == docstring


def test_bars_in_options_are_no_columns_and_have_no_backslash() -> None:
    page = commands_page()
    assert "<code>--output &lt;text&#124;json&#124;jsonl&gt;</code>" in page
    assert "\\|" not in page


def test_the_search_finds_pages_before_constants() -> None:
    def item(location: str, title: str, level: int) -> dict[str, object]:
        return {"location": location, "title": title, "level": level}

    page = item("merging.html", "Merge branches", 1)
    method = item("reference/api/branch.html#sparklake.branch.Branch.undo", "undo", 3)
    error = item("reference/api/errors.html#sparklake.errors.RaceLostError", "RaceLostError", 2)
    constant = item("reference/api/values.html#sparklake.a.B.c", "c <code>property</code>", 3)
    assert entry(page) == page
    assert (entry(method) or {})["title"] == "undo (Branch)"
    assert (entry(error) or {})["title"] == "sparklake.RaceLostError"
    assert (entry(item("design/010-bases.html", "010: Bases", 1)) or {})["title"] == (
        "Decision 010: Bases"
    )
    assert entry(constant) is None
    assert entry(item("design/010-bases.html#context", "Context", 2)) is None


def test_the_code_of_the_entrance_pages_fits_the_site() -> None:
    """A page at 1440 pixels shows 99 characters."""
    for name in ("README.md", "docs/index.md"):
        text = (ROOT / name).read_text(encoding="utf-8")
        code = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
        assert [line for each in code for line in each.splitlines() if len(line) > 99] == []
