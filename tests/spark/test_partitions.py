"""What the folders of a table say of its columns; no JVM is started."""

from __future__ import annotations

from datetime import datetime, timezone

import pyarrow as pa
import pytest

from sparklake.delta_log.table_files import data_files, partition_of
from sparklake.frames.tables.exact_files import root_of, scan_groups
from sparklake.frames.tables.partitions import ValueType
from sparklake.rows.objects import OBJECT_SCHEMA
from sparklake.stores.objects.addresses import spark_uri, spark_uris


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-2", "+3", "007"], "integer"),
        (["2147483647", "-2147483647"], "integer"),
        (["1", "2147483648"], "long"),
        (["9223372036854775807"], "long"),
        (["9223372036854775808", "1"], "decimal(19,0)"),
        (["9" * 38], "decimal(38,0)"),
        (["9" * 39], "string"),
        (["1", "2.5", "-3e10", ".5"], "double"),
        (["2024-02-29", "1999-12-31"], "date"),
        (["2024-02-29 23:59:59", "2024-03-01 00:00:00.123456"], "timestamp"),
        (["2024-02-30"], "string"),
        (["2024-02-29 25:00:00"], "string"),
        (["2024-01-01", "2024-01-01 00:00:00"], "string"),
        (["1", "one"], "string"),
        (["true", "false"], "string"),
        ([], "string"),
        # What Python reads as a number or a date, and Spark does not.
        (["1_000"], "string"),
        ([" 1"], "string"),
        (["٣"], "string"),
        (["nan"], "string"),
        (["2024-W01-1"], "string"),
        (["2024-1-1"], "string"),
    ],
)
def test_the_type_of_a_partition_column_holds_all_its_values(
    values: list[str], expected: str
) -> None:
    column = ValueType()
    for each in values:
        column.add(each)
    assert column.type == expected


@pytest.mark.parametrize(
    ("relative", "partition"),
    [
        ("part-0.parquet", ()),
        ("p=1/q=2/part-0.parquet", (("p", "1"), ("q", "2"))),
        ("sub/p=1/x=y.parquet", (("p", "1"),)),
        ("p=a=b/part-0.parquet", (("p", "a=b"),)),
        ("c%3Dd=a%2Fb/part-0.parquet", (("c=d", "a%2Fb"),)),
        ("=1/part-0.parquet", ()),
    ],
)
def test_the_partition_of_a_file(relative: str, partition: tuple[tuple[str, str], ...]) -> None:
    assert partition_of(relative) == partition


@pytest.mark.parametrize(
    ("uri", "relative", "root"),
    [
        ("file:///t/p=1/x.csv", "p=1/x.csv", "file:///t/"),
        ("s3a://b/t/sub/p=1/x.csv", "sub/p=1/x.csv", "s3a://b/t/"),
        ("file:///t/0123", "p=1/x.csv", None),
        ("file:///t/other-p=1/x.csv", "p=1/x.csv", None),
        ("file:///t/p=1/sub/x.csv", "p=1/sub/x.csv", None),
    ],
)
def test_the_root_from_which_a_path_leads_to_a_file(
    uri: str, relative: str, root: str | None
) -> None:
    assert root_of(uri, relative) == root


@pytest.mark.parametrize(
    ("relative", "is_hidden"),
    [
        ("part-0.parquet", False),
        ("_SUCCESS", True),
        ("_delta_log/000.json", True),
        ("p=1/_temporary/0/part-0.parquet", True),
        (".part-0.parquet.crc", True),
        ("_p=1/part-0.parquet", False),
        ("under_score/part_0.parquet", False),
    ],
)
def test_what_spark_passes_over_is_hidden(relative: str, is_hidden: bool) -> None:
    row = {"path": f"t/{relative}", "size": 1, "address": "s3://bucket/one", "metadata": {}}
    row |= {"checksum": "", "content_type": "", "mtime": datetime(1970, 1, 1, tzinfo=timezone.utc)}
    batch = pa.RecordBatch.from_pylist([row], schema=OBJECT_SCHEMA)
    found = [each.to_pylist() for each in data_files([batch], "t/", spark_uris)]
    file = {"uri": "s3a://bucket/one", "relative": relative, "size": 1, "mtime": 0}
    assert found == [[] if is_hidden else [file]]


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        (["a:p=1", "a:p=2", "a:p=3"], 1),
        (["a:p=1", "b:p=2"], 2),
        (["a:p=1", "b:p=1", "c:p=1", "c:p=2"], 2),
        ([":p=1", ":p=1", ":p=2"], 2),
        (["a:p=1", "a:p=2", ":p=1", ":p=2"], 1 + 2),
    ],
)
def test_a_table_of_many_writes_is_read_by_few_scans(places: list[str], expected: int) -> None:
    files = {}
    for number, place in enumerate(places):
        root, _, folder = place.partition(":")
        relative = f"{folder}/{number}.parquet"
        files[f"file:///{root}/{relative}" if root else f"file:///x{number}"] = relative
    found = list(scan_groups(list(files), list(files.values())))
    assert len(found) == expected
    assert sorted(uri for _, _, some in found for uri in some) == sorted(files)
    for root, partition, some in found:
        if root:
            assert {root_of(each, files[each]) for each in some} == {root}
        else:
            assert {partition_of(files[each]) for each in some} == {partition}


def test_spark_is_told_of_s3_by_the_name_of_hadoops_client() -> None:
    assert spark_uri("s3://bucket/s3://x") == "s3a://bucket/s3://x"
    assert spark_uri("file:///s3://x") == "file:///s3://x"
