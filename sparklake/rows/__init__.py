"""Row types, their schemas, and the messages and settings of tasks."""
