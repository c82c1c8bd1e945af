"""Dumps of refs in lakeFS's format."""
