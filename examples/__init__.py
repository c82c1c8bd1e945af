"""Programs that show how to use sparklake."""
