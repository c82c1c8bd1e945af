"""The storage namespace of a repository: addresses, markers, leftovers."""
