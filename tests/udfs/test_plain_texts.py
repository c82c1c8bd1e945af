"""Column checks of texts give the same result with kernels, without them, and for one row."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparklake.errors import InvalidInputError
from sparklake.graveler import kernel_choice
from sparklake.stores.objects import normalise_object_uri
from sparklake.stores.objects.key_checks import check_key
from sparklake.udfs.staged_rows import plain_addresses, plain_keys, plain_uris
from tests.support.cases import for_each

NAMESPACE = "s3://lake/repo"
PARTS = ("s3", "s3a", "file", "S3", "http", ":", "/", "//", "://", ":///", ".", "..", "a", "b-_1")
PARTS += ("gs", "https", "acct.blob.core.windows.net/con", "acct.z9.blob.storage.azure.net/$web")
PARTS += ("\0", "\n", "ä", "日本", "lake", "repo", "x" * 256, "buc.ket", " ", "%", "\\", "?", "@")

KNOWN = (
    "",
    "a/b",
    "/a",
    "a/.b",
    ".a",
    "a\0",
    "a//b",
    "s3:/a/b",
    "s3://bucket/a",
    "s3a://bucket/a/b",
    "s3a://bu/a",
    "s3://bucket//a",
    "s3://bucket/.a",
    "s3://bucket/a/.b",
    "s3://bucket/",
    "s3://bucket",
    f"{NAMESPACE}/data/1",
    "file:///a/b",
    "file:///",
    "file://a/b",
    "a/file:///b",
    "x://y",
    "gs://bucket/a/b",
    "gs://Bucket/a",
    "gs://_bucket/a",
    "gs://bu/a",
    "gs://bucket/a?b",
    "https://acct.blob.core.windows.net/con/a/b",
    "https://acct.blob.core.windows.net/con/a%20b c",
    "https://acct.z12.blob.core.chinacloudapi.cn/con/a",
    "https://acct.z1234.blob.core.windows.net/con/a",
    "https://acct.y1.blob.core.windows.net/con/a",
    "https://acct.blob.core.usgovcloudapi.net/$web/a",
    "https://acct.blob.storage.azure.net/con/.a",
    "https://acct.blob.storage.azure.net/con/a/.b",
    "https://acct.dfs.core.windows.net/con/a",
    "https://ACCT.blob.core.windows.net/con/a",
    "https://ac.blob.core.windows.net/con/a",
    "https://acct.blob.example.net/con/a",
    "https://acct.blob.core.windows.net/co/a",
    "https://acct.blob.core.windows.net/con/a\\b",
    "https://acct.blob.core.windows.net/con/a?sig=b",
    "https://acct.blob.core.windows.net/con/a&sig=b",
    "https://acct.blob.core.windows.net/con/x://u:p@h",
    "https://acct.blob.core.windows.net/con/",
    "https://acct.blob.core.windows.net/con",
)


def texts_of(seed: int) -> pa.StringArray:
    chance = random.Random(seed)
    random_texts = ["".join(chance.choices(PARTS, k=chance.randrange(1, 7))) for _ in range(300)]
    return pa.array([*KNOWN, *random_texts], pa.string())


def masks_of(texts: Any) -> list[list[bool]]:
    masks = (plain_keys(texts), plain_addresses(texts, NAMESPACE), plain_uris(texts))
    return [np.asarray(each).tolist() for each in masks]


@for_each("seed", range(20))
def test_kernels_and_definitions_agree(seed: int) -> None:
    texts = texts_of(seed)
    masks = masks_of(texts.slice(seed % 5))
    with kernel_choice.only_definitions():
        assert masks == masks_of(texts.slice(seed % 5))


def test_null_is_not_plain() -> None:
    assert masks_of(pa.array([None, "a"], pa.string())) == [
        [False, True],
        [False, True],
        [False] * 2,
    ]


def test_a_column_may_be_empty() -> None:
    assert masks_of(pa.array([], pa.string())) == [[], [], []]


@pytest.mark.parametrize("seed", range(3))
def test_plain_texts_pass_the_checks_of_a_row(seed: int) -> None:
    texts = texts_of(seed)
    keys, addresses, uris = masks_of(texts)
    assert {True, False} == set(keys) == set(addresses) == set(uris)
    for text, is_key, is_address, is_uri in zip(
        texts.to_pylist(), keys, addresses, uris, strict=True
    ):
        if is_key or (is_address and "://" not in text):
            check_key(text)
        if is_address and "://" in text:
            assert text.startswith("s3a") or normalise_object_uri(text) == text
        if is_uri:
            normalise_object_uri(text)
            check_key(text.split("/", 3)[3])


def test_a_text_in_the_namespace_is_not_a_plain_address() -> None:
    with pytest.raises(InvalidInputError):
        normalise_object_uri("s3://bucket")
    assert not plain_addresses(pa.array([f"{NAMESPACE}/data/1"]), NAMESPACE)[0]
    assert plain_addresses(pa.array([f"{NAMESPACE}/data/1"]), "s3://other")[0]
