"""Conditional writes for older releases of botocore.

A runtime's botocore may be older than conditional writes: 1.34 refuses the parameter IfNoneMatch.
The header needs no support by the client, so these handlers send it. They do nothing in newer
releases.
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


def _keep(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Take the condition from the parameters before they are checked."""
    if _PARAMETER in params:
        context[_KEPT] = params.pop(_PARAMETER)


def _send(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    """Add the condition to the headers before they are signed."""
    if _KEPT in context:
        params["headers"]["If-None-Match"] = context[_KEPT]
