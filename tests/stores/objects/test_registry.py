from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparklake.errors import InvalidUriError
from sparklake.stores.objects import describe_store, normalise_store_uri, open_object, open_store
from tests.support.cases import for_each

ODD_NAMES = ["two words", "100%", "%41", "%2F", "a#b", "a?b=c", "ümläut 東京", "a+b", "~", "x:y"]


@for_each(
    ("uri", "expected"),
    [
        ("/lake", "file:///lake"),
        ("/lake/", "file:///lake"),
        ("//lake//x/", "file:///lake/x"),
        ("/lake/./a/../b", "file:///lake/b"),
        ("file:///lake/", "file:///lake"),
        ("file:/lake", "file:///lake"),
        ("FILE:///lake", "file:///lake"),
        ("file://localhost/lake", "file:///lake"),
        ("local:///lake", "file:///lake"),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3a://bucket/lake/", "s3://bucket/lake"),
        ("S3A://bucket/a/b//", "s3://bucket/a/b"),
        ("s3://bucket/100%/a b/#?é", "s3://bucket/100%/a b/#?é"),
    ],
)
def test_a_store_uri_is_normalised(uri: str, expected: str) -> None:
    assert normalise_store_uri(uri) == expected
    assert normalise_store_uri(expected) == expected
    assert open_store(uri).uri == expected


def test_a_relative_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert normalise_store_uri("lake") == f"file://{tmp_path}/lake"
    assert normalise_store_uri("./~") == f"file://{tmp_path}/~"


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert normalise_store_uri("~/lake") == f"file://{tmp_path}/lake"
    assert normalise_store_uri("file:///~/lake") == "file:///~/lake"


@pytest.mark.parametrize("name", ODD_NAMES)
def test_unusual_directory_names_are_used_verbatim(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    for spelling in (str(folder), f"file://{folder}", f"file:{folder}"):
        assert normalise_store_uri(spelling) == f"file://{folder}"
        assert open_store(spelling).put_if_absent(f"{len(spelling)}", b"body")
    assert len(list(folder.glob("[0-9]*"))) == 3
    store, key = open_object(f"file://{folder}/{len(str(folder))}")
    assert store.get(key) == b"body"


@for_each(
    "uri",
    [
        "",
        "/",
        "file:///",
        "file://",
        "file://host/lake",
        "nul\0",
        "\udcff",
        "s3://",
        "s3:/bucket/lake",
        "s3:///lake",
        "s3://no spaces/lake",
        "s3://bucket/a//b",
        "s3://bucket//a",
        "s3://bucket/../a",
        "s3://bucket/./a",
        "abfss://container@account/lake",
        "dbfs:/lake",
        "hdfs://name/lake",
        "https://host/lake",
    ],
)
def test_an_invalid_store_uri_is_rejected(uri: str) -> None:
    with pytest.raises(InvalidUriError) as caught:
        normalise_store_uri(uri)
    with pytest.raises(InvalidUriError):
        open_store(uri)
    assert str(caught.value)


def test_the_error_for_an_unsupported_scheme_lists_the_supported_ones() -> None:
    with pytest.raises(InvalidUriError, match=r"hdfs://.*file:///path, s3://bucket/prefix.*gs://"):
        normalise_store_uri("hdfs://name/lake")


@pytest.mark.parametrize(
    "uri", ["s3://KEY:SECRET@bucket/lake", "s3a://KEY:SECRET@bucket", "ftp://KEY:SECRET@host/"]
)
def test_credentials_in_a_uri_are_rejected_and_not_repeated(uri: str) -> None:
    for call in (normalise_store_uri, open_store, open_object):
        with pytest.raises(InvalidUriError) as caught:
            call(uri)
        assert "SECRET" not in str(caught.value)
        assert "KEY" not in str(caught.value)


def test_opening_a_store_creates_no_directory(tmp_path: Path) -> None:
    open_store(str(tmp_path / "later"))
    assert list(tmp_path.iterdir()) == []


def test_clients_are_imported_lazily() -> None:
    code = (
        "import sys; from sparklake.stores.objects import open_store; open_store('/lake');"
        "assert not {'boto3', 'botocore', 'obstore', 'azure', 'google.auth'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_error_for_a_missing_boto3_suggests_the_extra() -> None:
    code = """
import sys
sys.modules["boto3"] = None  # what the import system takes for "not there"
from sparklake.errors import MissingDependencyError
from sparklake.stores.objects import open_store
try:
    open_store("s3://bucket")
except MissingDependencyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'sparklake[s3]'" in done.stdout


PLUGIN = """
from dataclasses import replace
from sparklake.stores.objects.local.provider import LOCAL

def split(uri):
    return "file://", uri.removeprefix("disk://")

PROVIDER = replace(
    LOCAL, schemes=("disk",), split=split, canonical_root=lambda uri: "file:///" + uri[7:]
)
"""


def test_a_package_adds_a_store_as_an_entry_point(tmp_path: Path) -> None:
    (tmp_path / "disk_store.py").write_text(PLUGIN)
    described = tmp_path / "disk_store-1.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: disk-store\nVersion: 1\n")
    (described / "entry_points.txt").write_text("[sparklake.stores]\ndisk = disk_store:PROVIDER\n")
    code = f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
from sparklake.stores.objects import describe_store, open_object, open_store
assert open_store("disk:/{tmp_path}/root").put_if_absent("key", b"body")
store, key = open_object("disk:/{tmp_path}/root/key")
assert store.get(key) == b"body"
assert describe_store("disk://x").is_local
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("uri", ["/lake", "s3://bucket/lake", "s3a://bucket"])
def test_a_store_is_described_without_opening_it(uri: str) -> None:
    assert describe_store(uri) == open_store(uri).traits
    assert describe_store(uri).is_local is (uri == "/lake")
