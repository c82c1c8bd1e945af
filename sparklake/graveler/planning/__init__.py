"""Plans of verbs, computed from metaranges alone."""
