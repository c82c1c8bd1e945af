"""Task bodies, from Arrow batches to Arrow batches, the same on every engine."""
