"""The S3 client of this process, and its errors."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from sparklake.config import BucketTimeouts
from sparklake.errors import (
    CorruptFileError,
    SparklakeError,
    StoreError,
    StorePermissionError,
    StoreUnreachableError,
)
from sparklake.extras import importing
from sparklake.interrupts import check_interrupted
from sparklake.stores.objects.buckets import environment, no_bucket, no_credentials, no_object
from sparklake.stores.objects.waits import WAITS, timeouts

with importing("boto3", "s3"):
    from boto3.session import Session
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError as BotoCoreError
    from botocore.exceptions import ClientError as ClientError
    from botocore.exceptions import (
        ConnectionClosedError,
        ConnectionError,  # noqa: A004 -- botocore's own, the root of its failures to connect
        ConnectTimeoutError,
        CredentialRetrievalError,
        FlexibleChecksumError,
        HTTPClientError,
        IncompleteReadError,
        NoAuthTokenError,
        NoCredentialsError,
        PartialCredentialsError,
        ProfileNotFound,
        ReadTimeoutError,
        ResponseStreamingError,
        SSOError,
        TokenRetrievalError,
    )
    from botocore.parsers import ResponseParserError
    from botocore.session import get_session
    from urllib3.exceptions import HTTPError

    from sparklake.stores.objects.s3.pages import PageParsers

MAX_CONNECTIONS = 32

# botocore retries until an answer starts. These errors occur within an answer or at its end.
# urllib3's own, such as a failure of TLS, are not all converted there.
TRUNCATED = (IncompleteReadError, ResponseStreamingError, FlexibleChecksumError, HTTPError)

# Creating a client takes 0.2 s of CPU, so threads share one. There is a lock per process, because a
# lock held during a fork would stay locked.
_CREATING: dict[int, Lock] = {}

# Tasks on many machines throttle a bucket together, and each retry waits longer. The user's setting
# (AWS_MAX_ATTEMPTS, max_attempts of a profile) takes precedence.
_ATTEMPTS = 8
# More attempts rarely help with an endpoint that does not answer at all.
_SILENT_ATTEMPTS = 3
_SILENCE = (ConnectTimeoutError, ReadTimeoutError)

# The abort of an upload's parts must run even after an interrupt.
_TIDYING = "before-send.s3.AbortMultipartUpload"

_REFUSED = {
    "AccessDenied",
    "AllAccessDisabled",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "RequestTimeTooSkewed",
    "403",
}
_NOT_IMPLEMENTED = {"NotImplemented", "501"}
_ADVICE = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role"
_NO_CREDENTIALS = (
    NoCredentialsError,
    PartialCredentialsError,
    CredentialRetrievalError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
    NoAuthTokenError,
)


def s3_client() -> Any:  # boto3 creates a client's methods at run time
    """Return this process's client for its AWS_* environment. Not shared with forked processes."""
    pid = os.getpid()
    with _CREATING.setdefault(pid, Lock()):
        return _client(pid, environment("AWS_"), timeouts())


@lru_cache(maxsize=8)
def _client(pid: int, settings: Hashable, patience: BucketTimeouts) -> Any:
    # A separate session, because boto3's default session is not thread-safe.
    core = get_session()
    core.register_component("response_parser_factory", PageParsers())
    attempts = core.get_config_variable("max_attempts") or _ATTEMPTS
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=patience.connect_seconds,
        read_timeout=patience.read_seconds,
        max_pool_connections=MAX_CONNECTIONS,
    )
    try:
        client: Any = Session(botocore_session=core).client("s3", config=config)
    except ValueError as error:
        raise StoreUnreachableError(
            "The S3 endpoint is not a URL: correct AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL."
        ) from error

    client._endpoint.http_session = _WholeRefusals(client._endpoint.http_session)
    send_conditions(client)
    _verify_checksums(client)
    client.meta.events.register_first("before-send.s3", _before_send)
    client.meta.events.register_first("needs-retry.s3", _after_attempt)
    return client


class _WholeRefusals:
    """An HTTP session that reads complete error bodies: botocore does not retry these reads."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def send(self, request: Any) -> Any:
        response = self._session.send(request)
        if response.status_code >= 300:
            try:
                response.content  # noqa: B018  (a property that reads)
            except HTTPError as error:
                raise ConnectionClosedError(
                    error=error, request=request, endpoint_url=request.url
                ) from error
        return response

    def close(self) -> None:
        self._session.close()


def _before_send(request: Any, event_name: str, **_: object) -> None:
    """Raise after an interrupt; otherwise record a waiting request."""
    if event_name != _TIDYING:
        check_interrupted()
    WAITS.begin(_public(request.url))


def _after_attempt(
    attempts: int, response: Any = None, caught_exception: Exception | None = None, **_: object
) -> None:
    """End the wait of an answered request; give up on an unresponsive endpoint."""
    if response is not None and response[0].status_code < 500:
        WAITS.end()
    elif isinstance(caught_exception, _SILENCE) and attempts >= _SILENT_ATTEMPTS:
        raise caught_exception


def error_code(error: ClientError) -> str:
    """Return the error code of a service's answer; the HTTP status for an empty body."""
    return str(error.response.get("Error", {}).get("Code", ""))


@contextmanager
def s3_errors(address: str) -> Iterator[None]:
    """Convert boto3 errors to store errors, without the service's text."""
    try:
        yield
    except ClientError as error:
        raise _refusal(error, address) from error
    except _NO_CREDENTIALS as error:
        raise no_credentials(address, error, _ADVICE) from error
    except (FlexibleChecksumError, IncompleteReadError, ResponseStreamingError) as error:
        raise _broken_body(error, address) from error
    except (ConnectionError, HTTPClientError) as error:
        raise StoreUnreachableError(
            f"{_endpoint(error)} does not answer for {address} ({type(error).__name__}): check "
            "the network, and AWS_ENDPOINT_URL if the store is not AWS."
        ) from error
    except HTTPError as error:
        raise _broken_body(error, address) from error
    except SparklakeError:
        raise  # Some are errors of Python's that are caught below.
    except (KeyError, ValueError, RecursionError, ResponseParserError) as error:
        raise StoreError(
            f"The response to a request for {address} is not an S3 response "
            f"({type(error).__name__}): "
            "check AWS_ENDPOINT_URL, and proxies between this machine and the store."
        ) from error
    except BotoCoreError as error:
        raise StoreError(
            f"The S3 client failed at {address} ({type(error).__name__}): check the AWS settings."
        ) from error
    finally:
        WAITS.end()


def _broken_body(error: BotoCoreError | HTTPError, address: str) -> StoreError:
    if isinstance(error, FlexibleChecksumError):
        what = "does not match the checksum that S3 sends for it"
    elif isinstance(error, IncompleteReadError) or "IncompleteRead" in str(error):
        what = "ends before its announced length"
    else:
        return StoreUnreachableError(
            f"The connection failed while reading {address} ({type(error).__name__}): check "
            "the network, and try again."
        )
    return CorruptFileError(
        f"The body of {address} {what} at every attempt: it is damaged in the bucket or in "
        "transit. Check proxies between this machine and the store. If that does not help, "
        "restore the object."
    )


def _endpoint(error: BotoCoreError) -> str:
    return _public(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))


def _public(text: str) -> str:
    url = urlsplit(text)
    # Rebuilt from its parts, because a URL may contain a password.
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}" if url.netloc else "The S3 endpoint"


def _refusal(error: ClientError, address: str) -> StoreError:
    code = error_code(error)
    if code == "NoSuchKey":
        return no_object(address)
    if code == "NoSuchBucket":
        return no_bucket(address)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _REFUSED or status == 403:
        return StorePermissionError(
            f"S3 rejects {error.operation_name} for {address} ({code}): check that the "
            "credentials are allowed to get, put, delete and list there."
        )
    if code in _NOT_IMPLEMENTED:
        return StoreError(
            f"The store of {address} has no conditional put (If-None-Match, If-Match), so two "
            "writers could overwrite each other: use a store with conditional puts, such as AWS or "
            "MinIO."
        )
    return StoreError(
        f"S3 failed at {error.operation_name} for {address} ({code}): try again. This is safe."
    )


# A runtime's botocore may be older than conditional writes and checks of reads: 1.34
# refuses these parameters, and compares no checksum by default. These handlers
# do nothing in newer releases.
_OPERATIONS = ("PutObject", "CompleteMultipartUpload")
_CONDITIONS = {"IfNoneMatch": "If-None-Match", "IfMatch": "If-Match"}
_KEPT = "sparklake_conditions"


def send_conditions(client: Any) -> None:
    """Make a client support conditions in its writes."""
    for name in _OPERATIONS:
        model = client.meta.service_model.operation_model(name)
        if not model.input_shape.members.keys() >= _CONDITIONS.keys():
            client.meta.events.register(f"before-parameter-build.s3.{name}", _keep)
            client.meta.events.register(f"before-call.s3.{name}", _send)


def _verify_checksums(client: Any) -> None:
    # Releases without this setting compare none by themselves.
    if not hasattr(client.meta.config, "response_checksum_validation"):
        client.meta.events.register("before-parameter-build.s3.GetObject", _verify)


def _verify(params: dict[str, Any], **_: object) -> None:
    params.setdefault("ChecksumMode", "ENABLED")


def _keep(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    names = _CONDITIONS.keys() & params.keys()
    context[_KEPT] = {_CONDITIONS[name]: params.pop(name) for name in names}


def _send(params: dict[str, Any], context: dict[str, Any], **_: object) -> None:
    params["headers"].update(context[_KEPT])
