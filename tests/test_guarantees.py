"""Every test that the guarantees and the threat model name exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
DOCUMENTS = ["docs/guarantees.md", "SECURITY.md"]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_tests_exist(document: str) -> None:
    named = set(NAMED.findall((ROOT / document).read_text(encoding="utf-8")))
    assert len(named) > 10
    missing = [
        f"{path}::{name}"
        for path, name in sorted(named)
        if not re.search(rf"^ *def {name}\(", (ROOT / path).read_text("utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_guarantee_names_a_test() -> None:
    text = (ROOT / DOCUMENTS[0]).read_text("utf-8")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", text, re.MULTILINE)
    promises = [row for row in rows if row != ("promise", "shown by")]
    assert [promise for promise, tests in promises if not NAMED.search(tests)] == []
