"""What a task of a merge notes of all differences between source and dest."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparklake.delta_log.file_names import ChangedLogs
from sparklake.graveler.algebra import BlockChanges
from sparklake.rows.added_files import AddedFiles
from sparklake.strategies.resolution import Resolution
from sparklake.udfs.tables.added_files import observe_added


@dataclass(frozen=True, slots=True)
class ObservedChanges:
    """The changed Delta logs and the added Parquet files, as far as the resolution needs them."""

    resolution: Resolution
    logs: ChangedLogs = field(default_factory=ChangedLogs)
    added: AddedFiles = field(default_factory=AddedFiles)

    def observe(self, changes: BlockChanges) -> None:
        """Note the differences of a block."""
        if self.resolution.delta:
            self.logs.observe(changes)
        if self.resolution.schema_check:
            observe_added(self.added, changes)
