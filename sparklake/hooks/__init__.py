"""What users declare to run before and after verbs: how it is read, and how each type is run."""
