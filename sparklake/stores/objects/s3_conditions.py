"""Conditional writes, and checks of what is read, for older releases of botocore.

A runtime's botocore may be older than both: 1.34 refuses the parameter IfNoneMatch, and compares
no checksum unless it is asked to. These handlers do nothing in newer releases.
"""

from __future__ import annotations

from typing import Any

_OPERATIONS = ("PutObject", "CompleteMultipartUpload")
_PARAMETER = "IfNoneMatch"
_KEPT = "sparklake_if_none_match"


def send_conditions(client: Any) -> None:
    """Make a client accept IfNoneMatch in its writes."""
    for name in _OPERATIONS:
        model = client.meta.service_model.operation_model(name)
        if _PARAMETER not in model.input_shape.members:
            client.meta.events.register(f"before-parameter-build.s3.{name}", _keep)
            client.meta.events.register(f"before-call.s3.{name}", _send)


def verify_checksums(client: Any) -> None:
    """Make a client compare what it reads with the checksums of the service."""
    # Releases without this setting compare none by themselves.
    if not hasattr(client.meta.config, "response_checksum_validation"):
        client.meta.events.register("before-parameter-build.s3.GetObject", _verify)


def _verify(params: dict[str, Any], **_: object) -> None:
    params.setdefault("ChecksumMode", "ENABLED")


def _keep(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Take the condition from the parameters before they are checked."""
    if _PARAMETER in params:
        context[_KEPT] = params.pop(_PARAMETER)


def _send(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Add the condition to the headers before they are signed."""
    if _KEPT in context:
        params["headers"]["If-None-Match"] = context[_KEPT]
