"""The documentation site: its pages are those of docs/, and a reference that is generated."""
