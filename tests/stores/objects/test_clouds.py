"""Azure containers and Google buckets, against Azurite and a test server."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qs, urlsplit
from urllib.request import urlopen

import obstore
import pytest

from sparklake.errors import (
    InvalidInputError,
    InvalidKeyError,
    InvalidUriError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.graveler.ports import ObjectStore
from sparklake.stores.objects import normalise_object_uri, normalise_store_uri, open_store
from sparklake.stores.objects.signing import signed_url
from sparklake.testing.azurite import container_client, fresh_container
from sparklake.testing.object_store import ObjectStoreContract, keys
from tests.support.cases import for_each
from tests.support.gcs_server import Buckets, fresh_gcs_bucket, key_file

HOST = "https://acct.blob.core.windows.net"
ODD = ["_SUCCESS", "data/a b%20+#?c=1&d", "ümläut/東京", "k/" + "n" * 1022]


@pytest.fixture
def container(azure_env: dict[str, str]) -> str:
    return fresh_container(azure_env)


@pytest.fixture
def client(azure_env: dict[str, str], container: str) -> Any:
    return container_client(azure_env, container.rpartition("/")[2])


@pytest.fixture
def google_bucket(gcs_env: dict[str, str], gcs_double: tuple[str, Buckets]) -> str:
    return fresh_gcs_bucket(gcs_double[1])


class TestAzure(ObjectStoreContract):
    unsupported = ("data/\\back\\slash",)

    @pytest.fixture
    def store(self, container: str) -> ObjectStore:
        return open_store(f"{container}/some/lake")


class TestGoogle(ObjectStoreContract):
    @pytest.fixture
    def store(self, google_bucket: str) -> ObjectStore:
        return open_store(f"{google_bucket}/some/lake")


@pytest.fixture(params=["container", "google_bucket"])
def store(request: pytest.FixtureRequest) -> ObjectStore:
    return open_store(request.getfixturevalue(request.param))


def test_empty_and_odd_objects_are_listed(store: ObjectStore) -> None:
    for key in ODD:
        store.put_if_absent(key, b"" if key == "_SUCCESS" else b"body")
    assert keys(store) == sorted(ODD)
    level = {each.key for each in store.scan("", level=True)}
    assert level == {"_SUCCESS", "data/", "ümläut/", "k/"}


def test_a_large_file_is_sent_in_parts(
    store: ObjectStore, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("sparklake.stores.objects.remote.LARGE_BYTES", 30 << 20)
    source, parts = tmp_path / "source", list[int]()
    body = bytes(range(256)) * ((30 << 12) + 1)
    source.write_bytes(body)
    assert store.put_files_if_absent({"large": source}, parts.append) == ["large"]
    assert sum(parts) == len(body)
    assert store.put_files_if_absent({"large": source}) == []
    store.get_to_file("large", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == body
    (stored,) = store.list()
    assert (stored.size, stored.checksum) == (len(body), store.find("large").checksum)  # type: ignore[union-attr]


@pytest.mark.parametrize("key", ["a//b", "a/../b", "a/./b", "/a"])
def test_a_listing_rejects_an_unreadable_key(
    container: str, client: Any, google_bucket: str, gcs_double: tuple[str, Buckets], key: str
) -> None:
    if "/." not in key:
        client.upload_blob(key, b"body")
    gcs_double[1].put(google_bucket.removeprefix("gs://"), key, b"body", None)
    for uri in (container, google_bucket) if "/." not in key else (google_bucket,):
        with pytest.raises(InvalidKeyError, match="Rename the object"):
            list(open_store(uri).list())


def test_folder_markers_are_not_objects(
    google_bucket: str, gcs_double: tuple[str, Buckets]
) -> None:
    for key in ("folder/", "folder/file", "empty/"):
        gcs_double[1].put(
            google_bucket.removeprefix("gs://"), key, key[-1:].strip("/").encode(), None
        )
    assert keys(open_store(google_bucket)) == ["folder/file"]
    assert {each.key for each in open_store(google_bucket).scan("", level=True)} == {
        "folder/",
        "empty/",
    }


# --- Azure ----------------------------------------------------------------------------------------


def test_directories_of_a_hierarchical_namespace_are_not_objects(
    container: str, client: Any
) -> None:
    client.upload_blob("folder", b"", metadata={"hdi_isfolder": "true"})
    client.upload_blob("folder/deep", b"", metadata={"hdi_isfolder": "true"})
    client.upload_blob("folder/deep/file", b"body")
    client.upload_blob("folder/empty", b"", metadata={"other": "true"})
    store = open_store(container)
    assert keys(store) == ["folder/deep/file", "folder/empty"]
    level = {each.key for each in store.scan("folder/", level=True)}
    assert level == {"folder/deep/", "folder/empty"}


def test_an_empty_blob_takes_one_lookup(
    container: str, client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    lookups, get = list[str](), obstore.get

    def counted(store: Any, path: str, **options: Any) -> Any:
        lookups.append(path)
        return get(store, path, **options)

    for key in ("_SUCCESS", "data/_SUCCESS", "data/file"):
        client.upload_blob(key, b"body" if key.endswith("file") else b"")
    monkeypatch.setattr("obstore.get", counted)
    monkeypatch.delattr("obstore.head")
    assert keys(open_store(container)) == ["_SUCCESS", "data/_SUCCESS", "data/file"]
    assert sorted(lookups) == ["_SUCCESS", "data/_SUCCESS"]


@pytest.mark.parametrize("key", ["a\\b", "a./b", "a/b.", "n" * 1025])
def test_keys_that_azure_would_change_are_rejected(
    container: str, key: str, tmp_path: Path
) -> None:
    store = open_store(container)
    (tmp_path / "file").write_bytes(b"body")
    for put in (
        lambda: store.put_if_absent(key, b""),
        lambda: store.replace(key, b""),
        lambda: store.put_files_if_absent({"fine": tmp_path / "file", key: tmp_path / "file"}),
    ):
        with pytest.raises(InvalidKeyError, match="Azure"):
            put()
    assert keys(store) == []


def test_a_wrong_key_or_a_missing_container_is_reported(
    container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreUnreachableError, match="does not exist: create it"):
        list(open_store(f"{container}-gone").list())
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "SECRETSECRETSECRETSECRET")
    with pytest.raises(StorePermissionError, match="Storage Blob Data Contributor") as caught:
        open_store(container).get("x")
    assert "SECRET" not in "".join(map(str, (caught.value, caught.value.__cause__)))


def test_a_shared_access_signature_gives_access(
    container: str, azure_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from azure.storage.blob import ContainerSasPermissions, generate_container_sas

    token = generate_container_sas(
        azure_env["AZURE_STORAGE_ACCOUNT_NAME"],
        container.rpartition("/")[2],
        account_key=azure_env["AZURE_STORAGE_ACCOUNT_KEY"],
        permission=ContainerSasPermissions.from_string("rwdl"),
        expiry=datetime.now(timezone.utc) + timedelta(hours=1),
    )
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", f"?{token}")
    store = open_store(container)
    assert store.put_if_absent("x", b"body")
    assert not store.put_if_absent("x", b"late")
    assert store.get("x") == b"body"
    assert keys(store) == ["x"]
    with pytest.raises(InvalidInputError, match="AZURE_STORAGE_SAS_TOKEN cannot sign"):
        signed_url(store, "x", timedelta(hours=1))


def test_settings_are_for_one_account_only(container: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing signs a request to another account with the key of this one."""
    from sparklake.stores.objects.azure import AzureContainer

    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", "sig=SECRET")
    other = AzureContainer("other.blob.core.windows.net", "lake")
    assert other.endpoint == "https://other.blob.core.windows.net"
    assert (other._key(), other._token()) == ("", "")
    assert "SECRET" not in repr(other)
    same_name = AzureContainer("devstoreaccount1.blob.core.chinacloudapi.cn", "lake")
    own = AzureContainer("devstoreaccount1.blob.core.windows.net", "lake")
    assert (same_name._token(), own._token()) == ("", "sig=SECRET")
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", f"https://{same_name.host}")
    assert (same_name._token(), own._token()) == ("sig=SECRET", "")
    assert normalise_store_uri("az://lake/a") == f"https://{same_name.host}/lake/a"


def test_missing_azure_credentials_are_reported(
    monkeypatch: pytest.MonkeyPatch, container: str
) -> None:
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import DefaultAzureCredential

    def get_token(*_: object, **__: object) -> None:
        raise ClientAuthenticationError("SECRET")

    monkeypatch.setattr(DefaultAzureCredential, "get_token", get_token)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    with pytest.raises(StorePermissionError, match="No usable credentials") as caught:
        open_store(container).get("x")
    assert "SECRET" not in str(caught.value)


@pytest.fixture
def identity(azure_env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sign in with an identity instead of a key, and return the token scopes."""
    from azure.identity import DefaultAzureCredential

    scopes = list[str]()

    def get_token(_: object, scope: str) -> SimpleNamespace:
        scopes.append(scope)
        return SimpleNamespace(token="a token", expires_on=4_000_000_000)

    monkeypatch.setattr(DefaultAzureCredential, "get_token", get_token)
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    return scopes


def test_an_identity_gets_a_storage_token(identity: list[str]) -> None:
    from sparklake.stores.objects.azure import AzureContainer

    own = AzureContainer("devstoreaccount1.blob.core.windows.net", "lake")
    expires = datetime.fromtimestamp(4_000_000_000, timezone.utc)
    assert own.credentials()() == {"token": "a token", "expires_at": expires}
    assert identity == ["https://storage.azure.com/.default"]


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"{HOST}/lake", f"{HOST}/lake"),
        (f"{HOST}/lake/a b/", f"{HOST}/lake/a b"),
        ("HTTPS://acct.blob.core.windows.net/lake/a", f"{HOST}/lake/a"),
        ("https://acct.dfs.core.windows.net/lake/a", f"{HOST}/lake/a"),
        ("abfss://lake@acct.dfs.core.windows.net/a/b", f"{HOST}/lake/a/b"),
        ("abfs://lake@acct.dfs.core.windows.net", f"{HOST}/lake"),
        ("wasbs://lake@acct.blob.core.windows.net/a%41", f"{HOST}/lake/a%41"),
        ("az://lake/a", "https://devstoreaccount1.blob.core.windows.net/lake/a"),
        (
            "abfss://lake@acct.dfs.core.usgovcloudapi.net/a",
            "https://acct.blob.core.usgovcloudapi.net/lake/a",
        ),
        (
            "https://acct.z01.blob.storage.azure.net/lake/a",
            "https://acct.z01.blob.storage.azure.net/lake/a",
        ),
        ("gs://bucket/a b/", "gs://bucket/a b"),
    ],
)
def test_a_store_uri_is_normalised(azure_env: dict[str, str], uri: str, expected: str) -> None:
    assert normalise_store_uri(uri) == expected == normalise_store_uri(expected)
    assert open_store(uri).uri == expected


@for_each(
    "uri",
    [
        "https://host/lake",
        "https://acct.blob.core.windows.net",
        "https://acct.blob.core.windows.net/",
        "https://acct.blob.core.windows.net.evil.com/lake",
        "abfss://lake@acct",
        "abfss://lake/acct",
        "az://lake/a",
        f"{HOST}/lake/../a",
        f"{HOST}/lake//a",
        f"{HOST}/LAKE/a",
        "gs://",
        "gs://BUCKET/a",
        "gs://bucket//a",
        "http://acct.blob.core.windows.net/lake",
    ],
)
def test_an_invalid_store_uri_is_rejected(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(InvalidUriError):
        normalise_store_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        f"{HOST}/lake/a?sv=2024&sig=SECRET",
        "https://user:SECRET@acct.blob.core.windows.net/lake",
        "gs://user:SECRET@bucket/a",
    ],
)
def test_credentials_in_a_uri_are_rejected_and_not_repeated(uri: str) -> None:
    for call in (normalise_store_uri, normalise_object_uri, open_store):
        with pytest.raises(InvalidUriError) as caught:
            call(uri)
        assert "SECRET" not in str(caught.value)


def test_a_presigned_azure_url_reads_the_object(container: str) -> None:
    store = open_store(container)
    for key in ODD[1:]:
        store.put_if_absent(key, key.encode())
        with urlopen(signed_url(store, key, timedelta(minutes=1))) as answer:
            assert answer.read() == key.encode()


@pytest.mark.usefixtures("identity")
def test_an_identity_presigns_an_azure_url(monkeypatch: pytest.MonkeyPatch) -> None:
    from azure.storage.blob import BlobServiceClient, UserDelegationKey

    lifetimes = list[timedelta]()

    def get_key(_: object, start: datetime, expiry: datetime) -> UserDelegationKey:
        lifetimes.append(expiry - start)
        key = UserDelegationKey()
        key.signed_oid, key.signed_tid = "the-identity", "the-tenant"
        key.signed_start, key.signed_expiry = start.isoformat(), expiry.isoformat()
        key.signed_service, key.signed_version, key.value = "b", "2024-11-04", "c2VjcmV0"
        return key

    monkeypatch.setattr(BlobServiceClient, "get_user_delegation_key", get_key)
    url = urlsplit(signed_url(open_store(f"{HOST}/lake"), "a b", timedelta(hours=1)))
    query = parse_qs(url.query)
    assert f"{url.scheme}://{url.netloc}{url.path}" == f"{HOST}/lake/a%20b"
    assert (query["skoid"], query["sktid"], query["sp"]) == (
        ["the-identity"],
        ["the-tenant"],
        ["r"],
    )
    assert query["sig"]
    assert lifetimes == [timedelta(hours=1)]


# --- Google ---------------------------------------------------------------------------------------


def test_a_presigned_google_url_reads_the_object(
    google_bucket: str, gcs_env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key_file(tmp_path)))
    store = open_store(google_bucket)
    for key in ODD[1:]:
        store.put_if_absent(key, key.encode())
        url = signed_url(store, key, timedelta(minutes=1))
        assert "X-Goog-Signature=" in url
        with urlopen(url) as answer:
            assert answer.read() == key.encode()


def test_google_credentials_without_a_key_cannot_sign_a_url(
    google_bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "federation.json"
    file.write_text('{"type": "external_account", "audience": "SECRET"}')
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
    with pytest.raises(InvalidInputError, match=r"cannot sign a URL .*key file") as caught:
        signed_url(open_store(google_bucket), "x", timedelta(hours=1))
    assert "SECRET" not in str(caught.value)


def test_a_google_account_gets_a_token(
    gcs_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from sparklake.stores.objects.gcs import GoogleBucket

    expires = datetime(2096, 1, 1, tzinfo=timezone.utc)

    class Account(SimpleNamespace):
        def refresh(self, _: object) -> None:
            # Google's times have no zone.
            self.token, self.expiry = "a token", expires.replace(tzinfo=None)

    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setattr("google.auth.default", lambda scopes: (Account(), None))
    assert GoogleBucket("lake").credentials()() == {"token": "a token", "expires_at": expires}


def test_missing_google_credentials_are_reported(
    google_bucket: str, gcs_env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STORAGE_EMULATOR_HOST")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/SECRET.json")
    with pytest.raises(StorePermissionError, match="application default credentials"):
        open_store(google_bucket).get("x")


@pytest.mark.parametrize(
    ("uri", "package", "extra"),
    [
        ("gs://bucket", "obstore", "gcs"),
        (f"{HOST}/lake", "obstore", "azure"),
        ("gs://bucket", "google.auth", "gcs"),
        (f"{HOST}/lake", "azure.identity", "azure"),
    ],
)
def test_the_error_for_a_missing_package_suggests_the_extra(
    uri: str, package: str, extra: str
) -> None:
    code = f"""
import os, sys
for name in [each for each in os.environ if each.startswith(("AZURE_", "GOOGLE_", "STORAGE_"))]:
    del os.environ[name]
sys.modules[{package!r}] = None  # what the import system takes for "not there"
from sparklake.errors import MissingDependencyError
from sparklake.stores.objects import open_store
try:
    open_store({uri!r}).get("x")
except MissingDependencyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert f"sparklake[{extra}]" in done.stdout
