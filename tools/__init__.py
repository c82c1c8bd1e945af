"""Programs for the maintainers of sparklake."""
