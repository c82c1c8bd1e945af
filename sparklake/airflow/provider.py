"""The metadata for the connection type in Airflow's UI."""

from __future__ import annotations

from typing import Any

from sparklake.airflow.names import CONNECTION_TYPE, FIELDS, HOME


def provider_info() -> dict[str, Any]:
    """Return the metadata defined by Airflow's `provider_info.schema.json`."""
    return {
        "package-name": "sparklake",
        "name": "sparklake",
        "description": "Git for data lakes: branches, commits and merges as tasks.",
        "connection-types": [
            {
                "connection-type": CONNECTION_TYPE,
                "hook-name": CONNECTION_TYPE,
                "hook-class-name": "sparklake.airflow.hook.SparklakeHook",
                "ui-field-behaviour": FIELDS,
                "conn-fields": {
                    HOME: {
                        "label": "Home folder",
                        "description": "Folder of the settings file, and of the embedded Postgres "
                        "if there is no DSN",
                        "schema": {"type": ["string", "null"]},
                    }
                },
            }
        ],
    }
