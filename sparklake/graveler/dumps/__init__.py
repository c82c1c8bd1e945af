"""Dumps of refs in the format of lakeFS."""
