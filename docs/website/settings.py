"""The reference of settings, from the definitions of the settings file and of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any, get_origin, get_type_hints

import msgspec

from sparklake.config import (
    DEFAULT_CACHE_BYTES,
    DEFAULT_ONCE,
    ENVIRONMENT,
    WEBHOOKS_ONLY,
    BucketTimeouts,
    BucketWrites,
    Engine,
    environment_name,
)
from sparklake.settings_file import FileSettings

_PAGE = """\
# Settings

An argument, such as `--dsn`, takes precedence over the environment. The environment takes
precedence over the settings file, and that over the defaults. The settings file is the one that
`SPARKLAKE_CONFIG` names, or else `sparklake.toml` in the home folder.
[conf/sparklake.toml](../files/conf/sparklake.toml) is an example.

## Settings file and environment

| setting, and variable | meaning |
|---|---|
{settings}

## Environment only

| variable | meaning |
|---|---|
{variables}
"""


def settings_page() -> str:
    """Return the page of all settings."""
    rows = (f"| {' | '.join(each)} |" for each in _settings())
    variables = (f"| `{name}` | {meaning} |" for name, meaning in ENVIRONMENT.items())
    return _PAGE.format(settings="\n".join(rows), variables="\n".join(variables))


def _settings() -> Iterator[tuple[str, str]]:
    """Yield the names of each setting, and its meaning with the default."""
    defaults = default_values()
    for name, hint in get_type_hints(FileSettings, include_extras=True).items():
        variable = environment_name(name)
        default = _shown(defaults.get(name))
        yield (
            f"`{name}`<br>`{variable}`" if variable else f"`{name}`",
            f"{description(hint)} Default: {default}." if default else description(hint),
        )


def description(hint: Any) -> str:
    """Return the meaning of a setting from its annotation."""
    if get_origin(hint) is Annotated:
        for each in hint.__metadata__:
            if isinstance(each, msgspec.Meta) and each.description:
                return each.description
    raise ValueError(f"{hint} has no description")


def default_values() -> dict[str, object]:
    """Return the defaults of settings that are the same on every machine."""
    return {
        "engine": Engine.AUTO.value,
        "cache_bytes": DEFAULT_CACHE_BYTES,
        "bucket_writes": BucketWrites.AUTO.value,
        **{f"hooks_{name}": value for name, value in asdict(WEBHOOKS_ONLY).items()},
        **{f"bucket_{name}": value for name, value in asdict(BucketTimeouts()).items()},
        **{f"once_{name}": value for name, value in asdict(DEFAULT_ONCE).items()},
    }


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"`{each}`" for each in value) or "none"
    return "" if value is None else f"`{value}`"
