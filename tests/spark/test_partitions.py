"""What the folders of a table say of its columns; no JVM is started."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import datetime, timezone

import pyarrow as pa
import pytest

from sparklake.errors import InvalidInputError
from sparklake.frames.tables.exact_files import root_of, scan_groups, split_schema, with_partitions
from sparklake.frames.tables.partitions import PartitionColumns, ValueType
from sparklake.metadata.delta.table_files import (
    NULL_PARTITION,
    is_skipped,
    partition_of,
    plain_files,
)
from sparklake.rows.objects import OBJECT_SCHEMA
from sparklake.stores.objects.addresses import spark_uri, spark_uris
from tests.support.cases import for_each


@for_each(
    ("values", "expected"),
    [
        (["1", "-2", "+3", "007", "-0"], "integer"),
        (["2147483647", "-2147483648"], "integer"),
        (["1", "2147483648"], "long"),
        (["9223372036854775807", "-9223372036854775808"], "long"),
        (["9223372036854775808", "1"], "decimal(19,0)"),
        (["9223372036854775808", "2147483648"], "decimal(20,0)"),
        (["9" * 38], "decimal(38,0)"),
        (["9" * 39], "double"),
        (["1e5", "1E+5", "1.5e1", "5.", "00e5"], "decimal(6,0)"),
        (["1e5", "2"], "decimal(10,0)"),
        (["1e37"], "decimal(38,0)"),
        (["1e38", "0e50", "1e400", "1e1000000000000"], "double"),
        (["1", "2.5", "-3e-10", ".5"], "double"),
        (["1", "NaN"], "double"),
        (["1.0E300", "Infinity", "-Infinity", "1d", "1f", " 1", "1 "], "double"),
        (["1.5", "2147483648"], "string"),
        (["1.5", "1e5"], "string"),
        (["2024-02-29", "1999-12-31", "-2024-01-01", "+1234567-01-01", "0000-01-01"], "date"),
        (["2024-02-29 23:59:59", "2024-03-01 00%3A00%3A00.1"], "timestamp"),
        (["2024-02-29", "2024-02-29 23:59:59"], "timestamp"),
        (["12%3A00%3A00", "12:00:00.123456"], "time"),
        (["12:00:00.1234567"], "string"),
        (["+312024-01-01 00:00:00"], "string"),
        (["+2024-01-01", "-0000-01-01", "-0001-02-29"], "string"),
        (["NaNd", "Infinityf", ".d"], "string"),
        (["+NaN", "+.5f", "1.d", "-1e5F"], "double"),
        (["2024-02-29 23:59:59.123456"], "string"),
        (["2024-02-30"], "string"),
        (["2024-02-29 25:00:00"], "string"),
        (["2024-01-01", "1"], "string"),
        (["1", "one"], "string"),
        (["true", "false"], "string"),
        ([], "void"),
        ([NULL_PARTITION], "void"),
        ([NULL_PARTITION, "1"], "integer"),
        (["%31"], "string"),
        # What Python reads as a number or a date, and Spark does not.
        (["1_000"], "string"),
        (["nan", "inf"], "string"),
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
    assert column.type({}) == expected
    assert column.type(None) == ("void" if expected == "void" else "string")


@pytest.mark.parametrize("value", ["٣", "4٣", "0x1p3"])
def test_numbers_that_only_java_reads_are_refused(value: str) -> None:
    with pytest.raises(InvalidInputError, match="rename its folder"):
        ValueType().add(value)


@for_each(
    ("folders", "is_refused"),
    [
        (["p=1/", "p=2/sub/"], False),
        (["sub/p=1/", "sub/p=2/"], False),
        (["", "backup/", "a/b/"], False),
        (["p=1/", "q=1/"], True),
        (["p=1/", "p=1/q=2/"], True),
        (["p=1/", "P=2/"], True),
        (["", "p=1/"], True),
        (["backup/", "p=1/"], True),
        (["a/p=1/", "b/p=2/"], True),
        (["p=/"], True),
        (["p=1/", "p=/"], True),
        (["=1/"], True),
        (["p=1/P=2/"], True),
    ],
)
def test_folders_that_spark_cannot_read_as_one_table_are_refused(
    folders: list[str], is_refused: bool
) -> None:
    for order in (folders, folders[::-1]):
        with pytest.raises(InvalidInputError) if is_refused else nullcontext():
            PartitionColumns().add(pa.array([f"{each}a.parquet" for each in order]))


@pytest.mark.parametrize(
    ("relative", "partition"),
    [
        ("part-0.parquet", ()),
        ("p=1/q=2/part-0.parquet", (("p", "1"), ("q", "2"))),
        ("sub/p=1/x=y.parquet", (("p", "1"),)),
        ("p=1/sub/part-0.parquet", (("p", "1"),)),
        ("p=1/sub/q=2/part-0.parquet", (("q", "2"),)),
        ("p=a=b/part-0.parquet", (("p", "a=b"),)),
        ("c%3Dd=a%2Fb/part-0.parquet", (("c=d", "a%2Fb"),)),
        ("=1/part-0.parquet", (("", "1"),)),
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


@for_each(
    ("relative", "is_hidden"),
    [
        ("part-0.parquet", False),
        ("_SUCCESS", True),
        ("_delta_log/000.json", True),
        ("p=1/_temporary/0/part-0.parquet", True),
        (".part-0.parquet.crc", True),
        ("_p=1/part-0.parquet", False),
        ("p=1/under_score/part_0.parquet", False),
        ("part-0.parquet._COPYING_", True),
        ("p=1._COPYING_/part-0.parquet", True),
        ("backup/part-0.parquet", True),
        ("backup/p=1/part-0.parquet", False),
        ("a/b/x=1.parquet", True),
        ("", True),
        ("p=1/", True),
    ],
)
def test_what_spark_passes_over_is_hidden(relative: str, is_hidden: bool) -> None:
    row = {"path": f"t/{relative}", "size": 1, "address": "s3://bucket/one", "metadata": {}}
    row |= {"checksum": "", "content_type": "", "mtime": datetime(1970, 1, 1, tzinfo=timezone.utc)}
    batch = pa.RecordBatch.from_pylist([row], schema=OBJECT_SCHEMA)
    found = [each.to_pylist() for each in plain_files([batch], "t/", spark_uris)]
    assert is_skipped(relative.encode()) is is_hidden
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


def test_given_types_of_folders_replace_inferred_ones() -> None:
    from pyspark.sql.types import DecimalType, IntegerType, LongType, StructType

    given = StructType().add("id", LongType()).add("P", IntegerType()).add("q", DecimalType(9, 2))
    stored, folders = split_schema(given, {"p": "long", "q": "double", "r": "string"})
    assert stored.names == ["id"]
    assert [each.dataType.simpleString() for each in with_partitions(stored, folders)] == [
        *("bigint", "int", "decimal(9,2)", "string")
    ]
