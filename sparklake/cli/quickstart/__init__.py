"""`sparklake quickstart`: a guided demo on real files."""
