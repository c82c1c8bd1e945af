"""Delta features, with typical statements for each, for tests and the documentation.

Each table has rows of the ids 0 to 9 in two files, and the columns `id` and `name`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sparklake.metadata.delta.features import FEATURES

_COLUMNS = "id BIGINT, name STRING"
_INSERTS = ("INSERT INTO {t} (id, name) SELECT id, concat('n', id) FROM range(0, 10, 1, 2)",)
_DELETE = "DELETE FROM {t} WHERE id = 9"
_DELTA = "spark.databricks.delta"
_VECTORS = {"delta.enableDeletionVectors": "true"}


@dataclass(frozen=True)
class Feature:
    """A feature: statements that create a table with it, and its name in the protocol.

    `{t}` in statements is the table, `{o}` another one. `later` are statements of an edit, and
    `values` more columns of the rows that are written after it. `conf` is that of the session, and
    `checkpoint` the pattern of names that checkpoints have.
    """

    label: str
    protocol: str | None
    columns: str = _COLUMNS
    clause: str = ""
    properties: dict[str, str] = field(default_factory=dict)
    inserts: tuple[str, ...] = _INSERTS
    more: tuple[str, ...] = ()
    later: tuple[str, ...] = ()
    values: str = ""
    conf: dict[str, str] = field(default_factory=dict)
    checkpoint: str = ""
    is_clone: bool = False
    on_spark_3: bool = True

    @property
    def statements(self) -> tuple[str, ...]:
        pairs = ", ".join(f"'{name}' = '{value}'" for name, value in self.properties.items())
        properties = f"TBLPROPERTIES ({pairs})" if pairs else ""
        create = f"CREATE TABLE {{t}} ({self.columns}) USING delta {self.clause} {properties}"
        statements = (create, *self.inserts, *self.more)
        if not self.is_clone:
            return statements
        clone = "CREATE TABLE {t} SHALLOW CLONE {o}"
        return (*(each.replace("{t}", "{o}") for each in statements), clone)

    @property
    def row(self) -> str:
        """The row of the matrix in docs/tables.md."""
        merges = "yes" if self.protocol is None or FEATURES[self.protocol] is None else "conflict"
        line = "3.5, 4" if self.on_spark_3 else "4"
        verbs = " | ".join(["yes"] * 5 + [merges] * 3)
        return f"| {self.label} | {line} | {verbs} |"


def _checkpoints(policy: str) -> dict[str, str]:
    return {"delta.checkpointPolicy": policy, "delta.checkpointInterval": "2", **_VECTORS}


DELTA_FEATURES = {
    "vectors": Feature("deletion vectors", "deletionVectors", properties=_VECTORS, more=(_DELETE,)),
    "clone": Feature(
        "files and vectors of another table (shallow clones)",
        "deletionVectors",
        properties=_VECTORS,
        more=(_DELETE,),
        is_clone=True,
    ),
    "parts": Feature(
        "checkpoints in several parts",
        None,
        properties=_checkpoints("classic"),
        more=(_DELETE,),
        conf={f"{_DELTA}.checkpoint.partSize": "1"},
        checkpoint=r"\.checkpoint\.[0-9]{10}\.[0-9]{10}\.parquet",
    ),
    "v2": Feature(
        "V2 checkpoints in Parquet, with sidecars",
        "v2Checkpoint",
        properties=_checkpoints("v2"),
        more=(_DELETE,),
        conf={f"{_DELTA}.checkpointV2.topLevelFileFormat": "parquet"},
        checkpoint=r"\.checkpoint\.[-0-9a-f]{36}\.parquet",
    ),
    "v2-json": Feature(
        "V2 checkpoints in JSON, with sidecars",
        "v2Checkpoint",
        properties=_checkpoints("v2"),
        more=(_DELETE,),
        conf={f"{_DELTA}.checkpointV2.topLevelFileFormat": "json"},
        checkpoint=r"\.checkpoint\.[-0-9a-f]{36}\.json",
    ),
    "mapping": Feature(
        "column mapping, renamed and dropped columns",
        "columnMapping",
        columns=f"{_COLUMNS}, old INT, gone INT",
        clause="PARTITIONED BY (old)",
        properties={"delta.columnMapping.mode": "name"},
        more=("ALTER TABLE {t} RENAME COLUMN old TO new", "ALTER TABLE {t} DROP COLUMN gone"),
        later=("ALTER TABLE {t} RENAME COLUMN new TO newer",),
        values=", 0 AS newer",
    ),
    "mapping-id": Feature(
        "column mapping by id", "columnMapping", properties={"delta.columnMapping.mode": "id"}
    ),
    "row-tracking": Feature(
        "row tracking", "rowTracking", properties={"delta.enableRowTracking": "true"}
    ),
    "identity": Feature(
        "identity columns, if only one side inserts rows",
        "identityColumns",
        columns=f"k BIGINT GENERATED ALWAYS AS IDENTITY, {_COLUMNS}",
        on_spark_3=False,
    ),
    "generated": Feature(
        "generated columns",
        "generatedColumns",
        columns=f"{_COLUMNS}, twice BIGINT GENERATED ALWAYS AS (id * 2)",
        on_spark_3=False,
    ),
    "constraints": Feature(
        "NOT NULL and CHECK constraints",
        "checkConstraints",
        columns="id BIGINT NOT NULL, name STRING",
        more=("ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 1000)",),
    ),
    "defaults": Feature(
        "column defaults",
        "allowColumnDefaults",
        columns=f"{_COLUMNS}, extra STRING DEFAULT 'x'",
        properties={"delta.feature.allowColumnDefaults": "supported"},
    ),
    "change-data": Feature(
        "change data feed", "changeDataFeed", properties={"delta.enableChangeDataFeed": "true"}
    ),
    "widening": Feature(
        "type widening",
        "typeWidening",
        columns="id INT, name STRING",
        properties={"delta.enableTypeWidening": "true"},
        more=("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT",),
        on_spark_3=False,
    ),
    "variant": Feature(
        "variants",
        "variantType",
        columns=f"{_COLUMNS}, v VARIANT",
        more=("UPDATE {t} SET v = parse_json('{{\"a\": 1}}')",),
        on_spark_3=False,
    ),
    "ntz": Feature(
        "timestamps without a time zone", "timestampNtz", f"{_COLUMNS}, at TIMESTAMP_NTZ"
    ),
    "in-commit": Feature(
        "in-commit timestamps",
        "inCommitTimestamp",
        properties={"delta.enableInCommitTimestamps": "true"},
    ),
    "clustering": Feature(
        "liquid clustering", "clustering", clause="CLUSTER BY (id)", later=("OPTIMIZE {t}",)
    ),
    "uniform": Feature(
        "Iceberg compatibility",
        "icebergCompatV2",
        properties={
            "delta.enableIcebergCompatV2": "true",
            "delta.columnMapping.mode": "name",
            "delta.enableDeletionVectors": "false",
        },
    ),
}


TOGETHER = Feature(
    "most features in one table",
    None,
    columns=(
        "k BIGINT GENERATED ALWAYS AS IDENTITY, id BIGINT NOT NULL, name STRING, old INT, gone INT,"
        " twice BIGINT GENERATED ALWAYS AS (id * 2), extra STRING DEFAULT 'x', at TIMESTAMP_NTZ"
    ),
    clause="CLUSTER BY (name)",
    properties={
        **_checkpoints("v2"),
        "delta.columnMapping.mode": "name",
        "delta.enableRowTracking": "true",
        "delta.enableChangeDataFeed": "true",
        "delta.enableInCommitTimestamps": "true",
        "delta.feature.allowColumnDefaults": "supported",
    },
    more=(
        _DELETE,
        "ALTER TABLE {t} ADD CONSTRAINT small CHECK (id < 1000)",
        "ALTER TABLE {t} RENAME COLUMN old TO new",
        "ALTER TABLE {t} DROP COLUMN gone",
    ),
    later=("OPTIMIZE {t}",),
    values=", 0 AS new",
    on_spark_3=False,
)
"""The features that one table can have, for a quick test."""


def matrix() -> list[str]:
    """Return the rows of the matrix in docs/tables.md."""
    return [each.row for each in DELTA_FEATURES.values()]
