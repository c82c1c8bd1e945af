"""Benchmarks of sparklake and lakeFS's own engine, on the same data, in one run."""
