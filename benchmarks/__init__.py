"""Measures sparklake beside lakeFS's own engine, on the same data, in one run."""
