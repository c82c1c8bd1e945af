"""A real S3 endpoint: moto behind an HTTP server, on a free loopback port."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cache
from io import BytesIO
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import boto3
from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

REGION = "eu-central-1"


@contextmanager
def s3_server() -> Iterator[str]:
    """Yield the endpoint of a running server."""
    server = make_server("127.0.0.1", 0, _one_at_a_time(), True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


def _one_at_a_time() -> WSGIApplication:
    """Return moto's application behind a lock.

    Without a lock, moto answers 500 if an object is replaced during a request. Bodies are received
    outside the lock.
    """
    moto = DomainDispatcherApplication(create_backend_app)
    lock = Lock()

    def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if length := environ.get("CONTENT_LENGTH"):
            environ["wsgi.input"] = BytesIO(environ["wsgi.input"].read(int(length)))
        with lock:
            return list(moto(environ, start_response))

    return answer


def s3_environment(endpoint: str, folder: Path) -> dict[str, str]:
    """Return the environment of a client restricted to this endpoint.

    `folder` is a home directory without AWS files.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_CONFIG_FILE": str(folder / "no-config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "no-credentials"),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_MAX_ATTEMPTS": "2",
    }


def aws_client(service: str, environment: Mapping[str, str]) -> Any:
    """Return a plain boto3 client for test setup."""
    return _client(service, environment["AWS_ENDPOINT_URL"])


@cache
def _client(service: str, endpoint: str) -> Any:
    session: Any = boto3.session.Session("test-key", "test-secret", region_name=REGION)
    return session.client(service, endpoint_url=endpoint)


def fresh_bucket(environment: Mapping[str, str]) -> str:
    """Create a bucket for one test; return its name."""
    name = f"bucket-{uuid4().hex}"
    make_bucket(environment, name)
    return name


def make_bucket(environment: Mapping[str, str], bucket: str) -> None:
    aws_client("s3", environment).create_bucket(
        Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
