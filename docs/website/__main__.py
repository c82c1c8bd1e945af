"""Build the site: `python -m docs.website`, or `make docs`.

Pages and the reference go to build/docs/pages. Zensical renders them into build/docs/site, and
refuses links to missing pages and anchors.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from docs.website import api
from docs.website.commands import commands_page
from docs.website.parameters import wrong_meanings
from docs.website.search import reorder_index
from docs.website.settings import settings_page
from docs.website.sources import ROOT, BrokenLinkError, write_sources

PAGES = ROOT / "build" / "docs" / "pages"
SITE = ROOT / "build" / "docs" / "site"
CONFIGURATION = ROOT / "mkdocs.yml"

_BY_INDEX = ("design", "benchmarks", "campaigns")
"""Folders whose pages are found by their index page, and not by the navigation."""


def main() -> int:
    """Build the site; return the exit code."""
    problems = [f"{name} has no docstring" for name in api.undocumented()]
    problems += wrong_meanings(api.functions())
    try:
        problems += write_pages(PAGES)
    except BrokenLinkError as error:
        problems.append(str(error))
    if problems:
        print(*problems, sep="\n", file=sys.stderr)
        return 1
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    command += ["--config-file", str(CONFIGURATION)]
    built = subprocess.run(command, cwd=ROOT, check=False).returncode
    if built == 0:
        reorder_index(SITE / "search.json")
        show_way_home(SITE / "404.html")
    return built


def show_way_home(page: Path) -> None:
    """Add links to the page of the error 404."""
    title = "<h1>404 - Not found</h1>"
    text = page.read_text(encoding="utf-8")
    if title not in text:
        raise ValueError(f"{page} has no {title}: adapt it to the theme")
    way = '<p>This page does not exist. Go to the <a href="/">home page</a>, or search above.</p>'
    page.write_text(text.replace(title, f"{title}\n  {way}"), encoding="utf-8")


def write_pages(folder: Path) -> list[str]:
    """Write all pages into a new folder; return what is wrong with the navigation."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = write_sources(folder)
    shutil.copyfile(Path(__file__).with_name("site.css"), folder / "site.css")
    reference = folder / "reference"
    (reference / "api").mkdir(parents=True)
    (reference / "commands.md").write_text(commands_page(), encoding="utf-8")
    (reference / "settings.md").write_text(settings_page(), encoding="utf-8")
    for name, text in api.api_pages():
        (reference / "api" / name).write_text(text, encoding="utf-8")
    return wrong_navigation(folder, pages)


def wrong_navigation(folder: Path, pages: list[PurePosixPath]) -> list[str]:
    """Return a sentence for each page that only the navigation has, or only the folder."""
    navigation = yaml.load(CONFIGURATION.read_text(encoding="utf-8"), _Loader)["nav"]  # noqa: S506
    named = set(_leaves(navigation))
    own = {str(each) for each in pages if len(each.parts) == 1 or each.parts[0] not in _BY_INDEX}
    return [
        *(
            f"mkdocs.yml names {each}, which does not exist"
            for each in sorted(named)
            if not (folder / each).is_file()
        ),
        *(f"the navigation in mkdocs.yml lacks the page {each}" for each in sorted(own - named)),
    ]


def _leaves(navigation: Any) -> Iterator[str]:
    if isinstance(navigation, str):
        yield navigation
    else:
        for each in navigation.values() if isinstance(navigation, dict) else navigation:
            yield from _leaves(each)


class _Loader(yaml.SafeLoader):
    """A reader of YAML that accepts Python's names, which the site's extensions have."""


_Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda loader, suffix, node: None)

if __name__ == "__main__":
    sys.exit(main())
