"""Settings for Spark's S3 client, recorded requests, and S3 access control."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from botocore.httpsession import URLLib3Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping


def s3a_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for Spark's S3 client to use the server of an s3_environment()."""
    return {
        "fs.s3a.endpoint": environment["AWS_ENDPOINT_URL"],
        "fs.s3a.endpoint.region": environment["AWS_DEFAULT_REGION"],
        "fs.s3a.access.key": environment["AWS_ACCESS_KEY_ID"],
        "fs.s3a.secret.key": environment["AWS_SECRET_ACCESS_KEY"],
        "fs.s3a.path.style.access": "true",
        "fs.s3a.connection.ssl.enabled": "false",
        # The other one is in a jar of its own.
        "fs.s3a.input.stream.type": "classic",
        "fs.s3a.audit.enabled": "false",
    }


@contextmanager
def recorded_requests(
    before: Callable[[str], object] = lambda _: None,
) -> Iterator[list[tuple[str, str]]]:
    """Record method and last path part of each request; call `before` with the method first."""
    requests: list[tuple[str, str]] = []
    send = URLLib3Session.send

    def noting(session: Any, request: Any) -> Any:
        before(request.method)
        path = unquote(urlsplit(request.url).path)
        requests.append((request.method, path.rpartition("/")[2]))
        return send(session, request)

    with mock.patch.object(URLLib3Session, "send", noting):
        yield requests


@contextmanager
def access_control(endpoint: str) -> Iterator[None]:
    """Make the server check credentials and policies; by default it does not."""
    _post(f"{endpoint}/moto-api/reset-auth", b"0")
    try:
        yield
    finally:
        _post(f"{endpoint}/moto-api/reset-auth", b"inf")


def _post(url: str, body: bytes) -> None:
    request = Request(url, data=body, headers={"Content-Type": "text/plain"}, method="POST")
    with urlopen(request) as answer:
        assert answer.status == 200
