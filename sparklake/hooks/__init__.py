"""Hook files and the execution of their hooks."""
