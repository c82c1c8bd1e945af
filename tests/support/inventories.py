"""S3 Inventories for tests, in each of their formats."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from datetime import datetime, timezone
from typing import Any
from urllib.parse import quote_plus

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.orc as orc
import pyarrow.parquet as pq

KEYS = ["raw/a b", "raw/x=1/p%20", "raw/é+ü", "raw/deep/er/" + "n" * 900, "other/z"]
TIME = datetime(2024, 5, 31, 12, 30, 1, tzinfo=timezone.utc)


def inventory_rows(bucket: str) -> pa.Table:
    """Return an inventory with versions: an old one of the first key, and a deleted key."""
    keys = [*KEYS, KEYS[0], "raw/gone", "raw/marker/"]
    latest = [True] * len(KEYS) + [False, True, True]
    count = len(keys)
    return pa.table(
        {
            "bucket": [bucket] * count,
            "key": keys,
            "version_id": ["v"] * count,
            "is_latest": latest,
            "is_delete_marker": [key == "raw/gone" for key in keys],
            "size": pa.array([0 if key.endswith("/") else len(key) for key in keys], pa.int64()),
            "last_modified_date": pa.array([TIME] * count, pa.timestamp("ms", tz="UTC")),
            "e_tag": [f"tag-{number}" for number in range(count)],
        }
    )


def encoded(rows: pa.Table, form: str) -> bytes:
    sink = io.BytesIO()
    if form == "Parquet":
        pq.write_table(rows, sink)
    elif form == "ORC":
        orc.write_table(rows, sink)
    else:
        texts = {
            "key": [quote_plus(key, safe="/") for key in rows["key"].to_pylist()],
            "is_latest": [str(each).lower() for each in rows["is_latest"].to_pylist()],
            "is_delete_marker": [str(e).lower() for e in rows["is_delete_marker"].to_pylist()],
            "last_modified_date": ["2024-05-31T12:30:01.000Z"] * rows.num_rows,
        }
        for name, values in texts.items():
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, name, pa.array(values, pa.string()))
        csv.write_csv(rows, sink, csv.WriteOptions(include_header=False))
        return gzip.compress(sink.getvalue())
    return sink.getvalue()


SCHEMAS = {
    "CSV": "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate, ETag",
    "Parquet": "message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); "
    "optional int64 size; }",
    "ORC": "struct<bucket:string,key:string,size:bigint>",
}
SUFFIXES = {"CSV": "csv.gz", "Parquet": "parquet", "ORC": "orc"}


def put_inventory(client: Any, bucket: str, form: str, **changes: Any) -> str:
    """Put an inventory with two files, and return the URI of its manifest."""
    rows, files = inventory_rows(bucket), []
    for number, part in enumerate((rows.slice(0, 3), rows.slice(3))):
        body, key = encoded(part, form), f"inventory/data/{number}.{SUFFIXES[form]}"
        client.put_object(Bucket=bucket, Key=key, Body=body)
        md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
        files.append({"key": key, "size": len(body), "MD5checksum": md5})
    manifest = {
        "sourceBucket": bucket,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "creationTimestamp": "1717113600000",
        "fileFormat": form,
        "fileSchema": SCHEMAS[form],
        "files": files,
        **changes,
    }
    body = json.dumps(manifest).encode()
    client.put_object(Bucket=bucket, Key="inventory/manifest.json", Body=body)
    return f"s3://{bucket}/inventory/manifest.json"
