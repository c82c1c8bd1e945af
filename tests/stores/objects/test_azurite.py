"""Microsoft's own client and obstore agree about Azurite."""

from __future__ import annotations

import obstore
import pytest
from azure.core.exceptions import ResourceExistsError
from obstore.exceptions import AlreadyExistsError
from obstore.store import AzureStore

from sparklake.testing.azurite import ACCOUNT, container_client, fresh_container


def test_each_client_reads_objects_of_the_other(azure_env: dict[str, str]) -> None:
    name = fresh_container(azure_env).rpartition("/")[2]
    store = AzureStore(
        name,
        account_name=ACCOUNT,
        account_key=azure_env["AZURE_STORAGE_ACCOUNT_KEY"],
        endpoint=azure_env["AZURE_STORAGE_ENDPOINT"],
        client_options={"allow_http": True},
    )
    client = container_client(azure_env, name)
    obstore.put(store, "data/a#b?c=d 100%", b"ours", mode="create", use_multipart=False)
    client.upload_blob("theirs", b"theirs")
    assert client.download_blob("data/a#b?c=d 100%").readall() == b"ours"
    assert obstore.get(store, "theirs").bytes() == b"theirs"
    assert [each.name for each in client.list_blobs()] == ["data/a#b?c=d 100%", "theirs"]
    with pytest.raises(ResourceExistsError):
        client.upload_blob("data/a#b?c=d 100%", b"late")
    with pytest.raises(AlreadyExistsError):
        obstore.put(store, "theirs", b"late", mode="create", use_multipart=False)
