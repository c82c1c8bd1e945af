"""Tables whose commits a catalog orders are rejected, because their log may lack the newest."""

from __future__ import annotations

import json
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
    ("feature", "reason"),
    [
        *((each, "a catalog") for each in ("catalogManaged", "catalogOwned-preview")),
        ("coordinatedCommits-preview", "a catalog"),
        *((each, "the log") for each in ("adaptiveMetadata", "icebergNativeV4", "tableBranching")),
    ],
)
def test_a_view_is_rejected_until_the_feature_is_dropped(
    pair: Pair, feature: str, reason: str
) -> None:
    pair.main.change(protocol("appendOnly", feature))
    pair.main.change(add("f3"))
    with pytest.raises(InvalidInputError, match=f"{feature}, so {reason} .* DEEP CLONE or CTAS"):
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


@pytest.mark.parametrize(
    "feature", ["catalogManaged", "adaptiveMetadata", "icebergNativeV4", "tableBranching"]
)
def test_an_import_reads_the_protocol(folder: Path, feature: str) -> None:
    """The folder of staged commits may be empty. Later commits may drop or add the feature."""
    main = repository(folder, 8).branch("main")
    log = folder / "source" / "t" / "_delta_log"
    log.mkdir(parents=True)
    for version, features in enumerate([["appendOnly"], ["appendOnly", feature]]):
        (log / f"{version:020}.json").write_text(json.dumps(protocol(*features)) + "\n")
    (log / f"{2:020}.json").write_text(json.dumps(add("f")) + "\n")
    with pytest.raises(InvalidImportError, match=f"the feature {feature}, so .*DEEP CLONE or CTAS"):
        main.import_objects(str(folder / "source"))
    assert not main.is_dirty
    (log / f"{3:020}.json").write_text(json.dumps(protocol("appendOnly")) + "\n")
    assert main.import_objects(str(folder / "source")).objects == 4


def test_an_import_rejects_a_later_version_of_iceberg(folder: Path) -> None:
    main = repository(folder, 8).branch("main")
    metadata = folder / "source" / "t" / "metadata"
    metadata.mkdir(parents=True)
    for version in (3, 4):
        file = metadata / f"0000{version}-{'a' * 36}.metadata.json"
        file.write_text(json.dumps({"format-version": version}))
    with pytest.raises(InvalidImportError, match="format version 4"):
        main.import_objects(str(folder / "source"))
    file.unlink()
    assert main.import_objects(str(folder / "source")).objects == 1
