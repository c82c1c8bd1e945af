"""`sparklake quickstart`: the main job, told as a story on real files."""
