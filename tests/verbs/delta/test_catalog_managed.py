"""Tables whose commits a catalog orders are rejected, because their log may lack the newest."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparklake.errors import InvalidImportError, InvalidInputError
from tests.support.table_pairs import Pair, parted, repository
from tests.support.written_tables import add


@pytest.fixture
def pair(folder: Path) -> Pair:
    return parted(folder)


def protocol(*features: str) -> dict[str, object]:
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": features}}


@pytest.mark.parametrize(
    "feature", ["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"]
)
def test_a_view_is_rejected_until_the_feature_is_dropped(pair: Pair, feature: str) -> None:
    pair.main.change(protocol("appendOnly", feature))
    pair.main.change(add("f3"))
    with pytest.raises(InvalidInputError, match=f"{feature}, so a catalog .* DEEP CLONE or CTAS"):
        pair.repo.view("main", "tables/t", "delta")
    pair.main.change(protocol("appendOnly"))
    pair.repo.view("main", "tables/t", "delta")


def test_an_import_with_commits_for_a_catalog_is_rejected(folder: Path) -> None:
    main = repository(folder, 8).branch("main")
    log = folder / "source" / "t" / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    for name in ("0.json", "_staged_commits/1.0b1e2bf2-5e25-4d0a-8a6c-bd5ad1ee1bcd.json"):
        (log / name).write_bytes(b"{}")
    with pytest.raises(InvalidImportError, match=r"catalogManaged.*DEEP CLONE or CTAS"):
        main.import_objects(str(folder / "source"))
    assert not main.is_dirty
    report = main.import_objects(str(folder / "source"), on_error="skip")
    assert (report.objects, report.counts) == (1, {"catalog_managed": 1})
