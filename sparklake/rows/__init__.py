"""Public row types, schemas of task rows, and settings of tasks."""
