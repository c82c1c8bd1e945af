"""Addresses of objects: in records, for readers and for Spark, one by one and in columns."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparklake.namespace.addresses import OwnNamespace
from sparklake.rows.objects import ObjectInfo, object_info, object_record
from sparklake.stores.objects.addresses import (
    shown_address,
    shown_addresses,
    spark_uri,
    spark_uris,
    stored_address,
    stored_addresses,
    unsupported_addresses,
)
from tests.support.cases import for_each

LAKE = "https://acct.blob.core.windows.net/lake"

# What lakeFS writes and reads: Go's net/url.URL{Path: ...}.String().
STORED = {
    f"{LAKE}/plain/x=1/a-b_c.~d": f"{LAKE}/plain/x=1/a-b_c.~d",
    f"{LAKE}/a b": f"{LAKE}/a%20b",
    f"{LAKE}/100%": f"{LAKE}/100%25",
    f"{LAKE}/%41": f"{LAKE}/%2541",
    f"{LAKE}/a#b?c=d&e+f,;:@$": f"{LAKE}/a%23b%3Fc=d&e+f,;:@$",
    f"{LAKE}/é/'(1)*!": f"{LAKE}/%C3%A9/%27%281%29%2A%21",
    f"{LAKE}/line\nend": f"{LAKE}/line%0Aend",
    "abfss://lake@acct.dfs.core.windows.net/a b": f"{LAKE}/a%20b",
    "s3://bucket/100%": "s3://bucket/100%",
    "gs://bucket/100% é": "gs://bucket/100% é",
    "file:///a/100%": "local:///a/100%",
}


@for_each(("address", "stored"), STORED.items())
def test_an_address_is_encoded_for_records(address: str, stored: str) -> None:
    assert stored_address(address) == stored
    displayed = spark_free = address.replace("abfss://lake@acct.dfs.core.windows.net", LAKE)
    assert shown_address(stored) == displayed == spark_free
    column = pa.array([address, "data/key%20"])
    assert stored_addresses(column).to_pylist() == [stored, "data/key%20"]
    assert shown_addresses(pa.array([stored, "data/key%20"])).to_pylist() == [
        displayed,
        "data/key%20",
    ]


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\\"), min_size=1))
def test_every_azure_key_round_trips(key: str) -> None:
    address = f"{LAKE}/k{key}"
    assert shown_address(stored_address(address)) == address
    assert stored_addresses(pa.array([address])).to_pylist() == [stored_address(address)]
    assert shown_addresses(pa.array([stored_address(address)])).to_pylist() == [address]


def test_an_invalid_escape_is_kept() -> None:
    for address in (f"{LAKE}/100%", f"{LAKE}/%zz", f"{LAKE}/%ff"):
        assert shown_address(address) == address
        assert shown_addresses(pa.array([address])).to_pylist() == [address]


def test_an_object_in_the_namespace_keeps_its_literal_key() -> None:
    namespace = f"{LAKE}/ns"
    for address in (
        f"{namespace}/data/t=00%3A00/a b",
        "abfss://lake@acct.dfs.core.windows.net/ns/data/t=00%3A00/a b",
    ):
        record = object_record(ObjectInfo("p", 1, "c", 0, address), namespace)
        info = object_info(record, namespace)
        assert info.address == f"{namespace}/data/t=00%3A00/a b"
    assert shown_addresses(pa.array([info.address]), f"{namespace}/").to_pylist() == [info.address]
    own = OwnNamespace(namespace)
    assert own.find_key(address) == own.find_key(info.address) == "data/t=00%3A00/a b"
    assert own.find_key(f"{LAKE}/ns2/data/x") is None


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        (f"{LAKE}/a b%20", "abfss://lake@acct.dfs.core.windows.net/a b%20"),
        (LAKE, "abfss://lake@acct.dfs.core.windows.net"),
        (
            "https://acct.blob.core.chinacloudapi.cn/lake/a",
            "abfss://lake@acct.dfs.core.chinacloudapi.cn/a",
        ),
        ("gs://bucket/a", "gs://bucket/a"),
        ("s3://bucket/a", "s3a://bucket/a"),
        ("file:///a", "file:///a"),
    ],
)
def test_a_uri_is_rewritten_for_spark(uri: str, expected: str) -> None:
    assert spark_uri(uri) == expected
    assert spark_uris(pa.array([uri])).to_pylist() == [expected]


def test_addresses_of_unsupported_stores_are_marked() -> None:
    supported = [
        *STORED,
        "az://lake/x",
        "s3a://b/x",
        "data/key",
        "https://a12.dfs.core.windows.net/l12/x",
    ]
    unknown = ["https://host/x", "hdfs://name/x", "http://acct.blob.core.windows.net/lake/x"]
    mask = unsupported_addresses(pa.array([*supported, *unknown])).to_pylist()
    assert mask == [False] * len(supported) + [True] * len(unknown)
