"""Tables in a bucket, read at refs by Spark's S3 client."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparklake import Branch, Repository, missing_files
from sparklake.errors import MissingFileError
from sparklake.testing.s3_server import aws_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("with_s3a")]

ENGINE = "local"
IN_BUCKET = True
TABLE = "tables/x"
ODD = ["a b", "50%", "c=d", "é", "#1", "a+b"]


@pytest.fixture
def main(repo: Repository) -> Branch:
    return repo.branch("main")


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.mark.system
def test_parquet_in_a_bucket(
    repo: Repository, main: Branch, bucket: str, s3_settings: dict[str, str]
) -> None:
    for number, value in enumerate(ODD):
        body = BytesIO()
        pq.write_table(pa.table({"id": [number]}), body)
        main.put(f"{TABLE}/p={value.replace('%', '%25')}/f {number}.parquet", body.getvalue())
    found = repo.read("main", TABLE)
    assert rows_of(found) == list(enumerate(ODD))
    assert rows_of(found.where("p = '50%'")) == [(1, "50%")]
    assert all(each.startswith(f"s3a://{bucket}/lake/data/") for each in found.inputFiles())
    main.commit("six files")
    main.delete(f"{TABLE}/p=a b/f 0.parquet")
    assert rows_of(repo.read("main", TABLE)) == list(enumerate(ODD))[1:]
    assert rows_of(repo.read("main@", TABLE)) == list(enumerate(ODD))
    # An option of Spark's reader: it is told of the files one by one.
    assert rows_of(repo.read("main@", TABLE, pathGlobFilter="*")) == list(enumerate(ODD))
    lost = next(each.address for each in repo.objects("main@", TABLE) if "f 3" in each.path)
    aws_client("s3", s3_settings).delete_object(
        Bucket=bucket, Key=lost.removeprefix(f"s3://{bucket}/")
    )
    with pytest.raises(MissingFileError, match=lost.rpartition("/")[2]), missing_files():
        repo.read("main@", TABLE).collect()


@pytest.mark.system
def test_a_delta_table_in_a_bucket(repo: Repository, main: Branch, tmp_path: Path) -> None:
    place = tmp_path / "delta"
    rows = [{"id": number, "p": value} for number, value in enumerate(ODD)]
    table = pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), ("p", pa.string())]))

    def keep(message: str) -> None:
        files = [each for each in place.rglob("*") if each.is_file()]
        main.put_many({f"{TABLE}/{each.relative_to(place)}": each.read_bytes() for each in files})
        main.commit(message)

    deltalake.write_deltalake(place, table, partition_by=["p"])
    keep("written")
    deltalake.DeltaTable(place).delete("id = 2")
    deltalake.DeltaTable(place).create_checkpoint()
    keep("deleted and checkpointed")
    expected = list(enumerate(ODD))
    assert rows_of(repo.read("main~1", TABLE, format="delta")) == expected
    found = repo.read("main", TABLE, format="delta")
    assert rows_of(found) == [each for each in expected if each[0] != 2]
    assert all(each.startswith("s3a://") for each in found.inputFiles())
