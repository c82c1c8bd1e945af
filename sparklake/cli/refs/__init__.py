"""Commands for branches, tags, repositories and their settings."""
