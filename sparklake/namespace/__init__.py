"""The storage namespace of a repository: layout, addresses, markers, leftovers."""
