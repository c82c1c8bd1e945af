"""The store of a local directory."""
