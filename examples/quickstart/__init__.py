"""A guided demo on real files: `make quickstart`."""
