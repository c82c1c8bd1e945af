"""The `sparklake` command."""
