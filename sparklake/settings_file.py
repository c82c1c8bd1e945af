"""The contents of a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec

from sparklake.choices import Engine, S3Writes
from sparklake.errors import InvalidInputError


class FileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a settings file."""

    dsn: str | None = None
    committer: str | None = None
    engine: Engine | None = None
    cache: str | None = None
    cache_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = None
    workers: Annotated[int, msgspec.Meta(ge=1)] | None = None
    hooks_allow: tuple[str, ...] | None = None
    hooks_skip: tuple[str, ...] | None = None
    hooks_private: tuple[str, ...] | None = None
    hooks_env: tuple[str, ...] | None = None
    s3_writes: S3Writes | None = None
    s3_connect_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    s3_read_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    once_days: Annotated[float, msgspec.Meta(gt=0)] | None = None
    once_wait_seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None


def read_settings_file(path: Path) -> FileSettings:
    """Read a settings file; raise InvalidInputError with the file and the reason."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=FileSettings)
    except OSError as error:
        raise InvalidInputError(f"cannot read the settings file {path}: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the settings file {path} is invalid: {error}. Known settings: "
            f"{', '.join(FileSettings.__struct_fields__)}"
        ) from None
