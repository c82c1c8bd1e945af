"""The search index of the site, ordered for readers of the guides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_LESS_READ = ("design/", "benchmarks/", "campaigns/")
_TITLES = {
    "merging.html": ("Conflicts of merges",),
    "purge.html": ("GDPR: erase data from all history",),
    "hooks.html": ("Approvals and other checks before a change",),
    "cookbook.html#undo-a-bad-load": ("Undo a load, a merge or a move",),
}
"""Other titles of pages and sections, beginning with words that readers search for."""
_TAG = re.compile(r"<[^>]+>")


def reorder_index(path: Path) -> None:
    """Rewrite an index so that guides and commands come before decisions and constants."""
    index = json.loads(path.read_text(encoding="utf-8"))
    items = [each for each in map(entry, index["items"]) if each is not None]
    index["items"] = [*renamed(items), *items]
    path.write_text(json.dumps(index), encoding="utf-8")


def renamed(items: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield copies of items under the other titles of their pages."""
    for item in items:
        for title in _TITLES.get(item["location"], ()):
            yield {**item, "title": title, "level": 1}


def entry(item: dict[str, Any]) -> dict[str, Any] | None:
    """Return an item as readers find it, or None for one that would hide a page.

    The search prefers titles that begin with the word, so only pages to be found first have the
    plain word there.
    """
    page, _, anchor = item["location"].partition("#")
    title = _TAG.sub("", item["title"]).strip()
    if page.startswith(_LESS_READ):
        return None if anchor else {**item, "title": f"{_kind(page)} {title}"}
    if not page.startswith("reference/api/"):
        return item
    if not anchor or "<code>property" in item["title"]:
        return None
    owner, _, name = anchor.removeprefix("sparklake.").rpartition(".")
    if item["level"] > 2:
        return {**item, "title": f"{name} ({owner.rpartition('.')[2]})"}
    return {**item, "title": f"sparklake.{name}"}


def _kind(page: str) -> str:
    return {"design": "Decision", "benchmarks": "Figures"}.get(page.partition("/")[0], "Campaign")
