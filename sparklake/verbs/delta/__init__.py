"""Delta tables of a repository: written, read and compared at refs, and united by merges."""
