"""The search index of the site, ordered for readers of the guides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

_LESS_READ = ("design/", "benchmarks/", "campaigns/")
_TAG = re.compile(r"<[^>]+>")


def reorder_index(path: Path) -> None:
    """Rewrite an index so that guides and commands come before decisions and constants."""
    index = json.loads(path.read_text(encoding="utf-8"))
    index["items"] = [each for each in map(entry, index["items"]) if each is not None]
    path.write_text(json.dumps(index), encoding="utf-8")


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
