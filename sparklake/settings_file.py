"""The contents of a settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from sparklake.choices import BucketWrites, Engine
from sparklake.errors import InvalidInputError


class FileSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    dsn: Annotated[
        str | None,
        Meta(description="The Postgres of the refs. Without one, an embedded Postgres is used."),
    ] = None
    committer: Annotated[
        str | None,
        Meta(description="The default committer of commits. Default: the name of the user."),
    ] = None
    engine: Annotated[
        Engine | None,
        Meta(
            description="The engine that runs plans: `local` is this machine, `spark` runs jobs, "
            "and `auto` chooses by the size of the plan."
        ),
    ] = None
    cache: Annotated[
        str | None,
        Meta(
            description="The folder of the cache of ranges and metaranges from buckets, on each "
            "machine. Default: a folder in `SPARKLAKE_SCRATCH`, or in the user's cache folder."
        ),
    ] = None
    cache_bytes: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="The size of the cache in bytes. 0 disables the cache."),
    ] = None
    workers: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="The number of threads that share a large plan on this machine. Default: "
            "one more than cores."
        ),
    ] = None
    hooks_allow: Annotated[
        tuple[str, ...] | None,
        Meta(
            description="The hooks allowed to run here: types, or types with a target pattern, "
            "such as `python:checks.**`."
        ),
    ] = None
    hooks_skip: Annotated[
        tuple[str, ...] | None,
        Meta(description="The hook types and events to skip, such as `lua` and `prepare-commit`."),
    ] = None
    hooks_private: Annotated[
        tuple[str, ...] | None,
        Meta(description="Private hosts and networks that webhooks may reach."),
    ] = None
    hooks_env: Annotated[
        tuple[str, ...] | None,
        Meta(description="Patterns of the environment variables that hooks may use."),
    ] = None
    bucket_writes: Annotated[
        BucketWrites | None,
        Meta(
            description="How Spark's writers write to buckets: `hadoop` uses Hadoop's client, "
            "`upload` uploads files from local disks, and `auto` is `hadoop` if Spark has it."
        ),
    ] = None
    bucket_connect_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="The connection timeout of bucket requests, in seconds."),
    ] = None
    bucket_read_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="The read timeout of bucket requests, in seconds, for the next bytes."),
    ] = None
    once_days: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="The days to keep idempotency keys.")
    ] = None
    once_wait_seconds: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="The seconds to wait for another run with the same idempotency key."),
    ] = None


def read_settings_file(path: Path) -> FileSettings:
    try:
        return msgspec.toml.decode(path.read_bytes(), type=FileSettings)
    except OSError as error:
        raise InvalidInputError(f"cannot read the settings file {path}: {error.strerror}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise InvalidInputError(
            f"the settings file {path} is invalid: {error}. Known settings: "
            f"{', '.join(FileSettings.__struct_fields__)}"
        ) from None
