"""Google's own client and obstore agree about the double of Google Cloud Storage."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5

import obstore
import pytest
from google.api_core.exceptions import NotFound, PreconditionFailed
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from obstore.exceptions import AlreadyExistsError
from obstore.store import GCSStore

from tests.support.gcs_server import Buckets, fresh_gcs_bucket

KEYS = ["data/a#b?c=d&e+f", "data/100%", "data/two words", "data/deep/ümläut", "z"]


@pytest.fixture
def endpoint(gcs_double: tuple[str, Buckets]) -> str:
    return gcs_double[0]


@pytest.fixture
def bucket(gcs_double: tuple[str, Buckets]) -> str:
    return fresh_gcs_bucket(gcs_double[1]).removeprefix("gs://")


@pytest.fixture
def googles(endpoint: str, bucket: str) -> Iterator[storage.Bucket]:
    options = {"api_endpoint": endpoint}
    client = storage.Client("p", AnonymousCredentials(), client_options=options)
    yield client.bucket(bucket)
    client.close()


@pytest.fixture
def ours(endpoint: str, bucket: str) -> GCSStore:
    return GCSStore(
        bucket,
        base_url=endpoint,
        client_options={"allow_http": True},
        credential_provider=lambda: {"token": "any", "expires_at": None},
    )


@pytest.mark.parametrize("key", KEYS)
def test_each_client_reads_objects_of_the_other(
    googles: storage.Bucket, ours: GCSStore, key: str
) -> None:
    obstore.put(ours, key, b"body", mode="create", use_multipart=False)
    blob = googles.blob(key)
    assert blob.download_as_bytes() == b"body"
    assert blob.download_as_bytes(start=1, end=2) == b"od"
    googles.blob(f"{key}2").upload_from_string(b"other", if_generation_match=0)
    assert obstore.get(ours, f"{key}2").bytes() == b"other"
    blob.delete()
    assert not blob.exists()
    with pytest.raises(FileNotFoundError):
        obstore.head(ours, key)
    with pytest.raises(NotFound):
        blob.delete()


def test_both_clients_respect_an_existing_object(googles: storage.Bucket, ours: GCSStore) -> None:
    googles.blob("x").upload_from_string(b"first", if_generation_match=0)
    with pytest.raises(PreconditionFailed):
        googles.blob("x").upload_from_string(b"second", if_generation_match=0)
    with pytest.raises(AlreadyExistsError):
        obstore.put(ours, "x", b"second", mode="create", use_multipart=False)
    googles.blob("x").upload_from_string(b"third")
    assert obstore.get(ours, "x").bytes() == b"third"


@pytest.mark.system
def test_both_clients_list_the_same_objects(googles: storage.Bucket, ours: GCSStore) -> None:
    for key in [*KEYS, *(f"many/{number:04}" for number in range(1001))]:
        googles.blob(key).upload_from_string(b"body")
    listed = {each["path"]: each["size"] for each in obstore.list(ours).collect()}
    assert listed == {each.name: each.size for each in googles.list_blobs()}
    assert len(listed) == 1001 + len(KEYS)
    level = googles.list_blobs(prefix="data/", delimiter="/")
    names = [each.name for each in level]
    listing = obstore.list_with_delimiter(ours, "data")
    assert [each["path"] for each in listing["objects"]] == names
    assert {f"{each}/" for each in listing["common_prefixes"]} == level.prefixes == {"data/deep/"}


def test_both_clients_report_the_same_attributes(googles: storage.Bucket, ours: GCSStore) -> None:
    obstore.put(ours, "x", b"body", use_multipart=False)
    blob, head = googles.blob("x"), obstore.head(ours, "x")
    blob.reload()
    assert (blob.size, str(blob.generation)) == (head["size"], head["version"])
    assert abs((blob.updated - head["last_modified"]).total_seconds()) < 1
    assert head["e_tag"] == f'"{md5(b"body", usedforsecurity=False).hexdigest()}"'
