"""Steps that all verbs share: open, resolve, snapshot, stage, publish."""
