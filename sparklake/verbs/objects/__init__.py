"""Single objects and folders of them: as files, put, moved, removed and restored."""
