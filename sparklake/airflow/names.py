"""Names of the connection type. Does not import Airflow."""

from __future__ import annotations

from typing import Any

CONNECTION_TYPE = "sparklake"
DEFAULT_CONNECTION = "sparklake_default"
HOME = "home"
"""The key of the home folder in a connection's extra."""

FIELDS: dict[str, Any] = {
    "hidden-fields": ["host", "port", "schema", "login"],
    "relabeling": {"password": "DSN"},
    "placeholders": {"password": "postgresql://user:secret@host/lake"},
}
"""The form of the connection. The DSN is its password, so Airflow encrypts and masks it."""
