"""The union of an Iceberg table's snapshots on three sides, as values."""
