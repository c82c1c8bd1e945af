"""Steps shared by all verbs: open, resolve, snapshot, stage, publish."""
