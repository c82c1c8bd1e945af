"""Webhooks, against a server on this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from sparklake.config import HookSettings
from sparklake.graveler.ports.registers import HookStatus
from sparklake.hooks.events import HookOutcome
from sparklake.hooks.properties import Webhook
from sparklake.hooks.secrets import MAX_OUTPUT, Secrets
from sparklake.hooks.webhooks import post_event
from tests.support.hook_server import HookServer, hook_server

HERE = HookSettings(private=("127.0.0.0/8",), env=("HOOK_*",))
DOCUMENT = {"event_type": "pre-commit", "commit_message": "Ümlaut"}
SECRET = "s3cret/key+"
SHORT = "200ms"


@pytest.fixture(scope="module")
def server() -> Iterator[HookServer]:
    with hook_server() as running:
        yield running


@pytest.fixture(autouse=True)
def forget(server: HookServer) -> None:
    server.posted.clear()


def post(url: str, settings: HookSettings = HERE, **options: Any) -> HookOutcome:
    return post_event(Webhook(url, **options), DOCUMENT, settings, Secrets(settings.env))


def refused(words: str, url: str, settings: HookSettings = HERE, **options: Any) -> None:
    outcome = post(url, settings, **options)
    assert outcome.status is HookStatus.FAILED
    assert words in outcome.output


def test_an_event_is_posted_as_json(server: HookServer) -> None:
    outcome = post(f"{server.url}/200?x=1#part", query_params={"a": "b c", "d": ["1", "2"]})
    assert outcome == HookOutcome(HookStatus.PASSED, "as asked\nstatus 200")
    ((path, headers, body),) = server.posted
    assert path == "/200?x=1&a=b+c&d=1&d=2"
    assert headers["Host"] == server.url.removeprefix("http://")
    assert headers["Content-Type"] == "application/json"
    assert body == DOCUMENT


def test_a_url_without_a_path_requests_the_root(server: HookServer) -> None:
    post(server.url, timeout=SHORT)
    assert server.paths == ["/"]


@pytest.mark.parametrize("status", [400, 404, 422, 500, 503])
def test_a_failure_status_fails_the_hook_without_a_retry(server: HookServer, status: int) -> None:
    refused(f"as asked\nstatus {status}", f"{server.url}/{status}")
    assert server.paths == [f"/{status}"]


def test_status_204_passes(server: HookServer) -> None:
    assert post(f"{server.url}/204").status is HookStatus.PASSED


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(server: HookServer, status: int) -> None:
    refused("redirects are not followed", f"{server.url}/{status}")
    assert server.paths == [f"/{status}"]


def test_redirects_are_followed_if_the_hook_allows_it(server: HookServer) -> None:
    assert post(f"{server.url}/307", follow_redirects=True).status is HookStatus.PASSED
    assert server.paths == ["/307", "/200"]
    # A POST may not become a GET.
    refused("redirects are not followed", f"{server.url}/302", follow_redirects=True)
    refused("more than 3 redirects", f"{server.url}/loop", follow_redirects=True)


def test_a_redirect_is_checked_like_the_first_url(server: HookServer) -> None:
    only = HookSettings(allow=(f"webhook:{server.url}/to-*",), private=HERE.private)
    refused("hooks_allow", f"{server.url}/to-_200", only, follow_redirects=True)
    for target, words in [
        ("http:__inner:1_x", "inner has the address 127.0.0.2"),
        ("http:__169.254.169.254_x", "169.254.169.254, which is not public"),
        ("file:___etc_passwd", "a URL must start with"),
    ]:
        narrow = HookSettings(private=("127.0.0.1/32",))
        with names(inner="127.0.0.2"):
            refused(words, f"{server.url}/to-{target}", narrow, follow_redirects=True)
    assert len(server.posted) == 4


def names(**addresses: str) -> Any:
    """Let names lead to addresses; addresses lead to themselves."""

    def resolve(host: str, port: int, *_: object, **__: object) -> list[tuple[Any, ...]]:
        address = addresses.get(host.partition(".")[0], host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    return mock.patch.object(socket, "getaddrinfo", side_effect=resolve)


def test_headers_are_not_sent_to_another_server(server: HookServer) -> None:
    other = server.url.replace("127.0.0.1", "other").replace("/", "_")
    with names(other="127.0.0.1"):
        for path in (f"to-{other}_200", "307"):
            post(f"{server.url}/{path}", follow_redirects=True, headers={"X-Key": "k"})
    assert [each.get("X-Key") for _, each, _ in server.posted] == ["k", None, "k", "k"]


def test_private_addresses_are_rejected(server: HookServer) -> None:
    refused("127.0.0.1, which is not public", f"{server.url}/200", HookSettings())
    refused("is not public", "http://localhost:1/", HookSettings(private=("10.0.0.0/8",)))
    refused("169.254.169.254, which is not public", "http://169.254.169.254/latest", HERE)
    assert server.posted == []


def test_the_checked_address_is_the_one_that_is_contacted(server: HookServer) -> None:
    port = server.url.rpartition(":")[2]
    with names(rebind="127.0.0.1") as resolver:
        assert post(f"http://rebind.example.com:{port}/200").status is HookStatus.PASSED
    assert [each.args[0] for each in resolver.mock_calls if "rebind" in each.args[0]] == [
        "rebind.example.com"
    ]
    assert server.posted[0][1]["Host"] == f"rebind.example.com:{port}"


def test_no_proxy_is_used(server: HookServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert post(f"{server.url}/200").status is HookStatus.PASSED


@pytest.mark.parametrize("name", ["silent", "drip"])
def test_the_timeout_covers_the_whole_request(server: HookServer, name: str) -> None:
    refused("not finished after 0.2 seconds", f"{server.url}/{name}", timeout=SHORT)
    assert server.paths == [f"/{name}"]


def test_a_slow_name_lookup_counts_toward_the_timeout(server: HookServer) -> None:
    with names(slow="127.0.0.1") as resolver:
        resolve = resolver.side_effect

        def slowly(host: str, port: int, *_: object, **__: object) -> Any:
            server.is_over.wait(0.6)
            return resolve(host, port)

        resolver.side_effect = slowly
        refused(
            "not finished after", f"{server.url.replace('127.0.0.1', 'slow')}/200", timeout=SHORT
        )
        server.is_over.wait(0.9)
    assert server.posted == []


def test_an_endless_body_is_truncated(server: HookServer) -> None:
    outcome = post(f"{server.url}/flood")
    assert outcome.status is HookStatus.PASSED
    assert len(outcome.output) <= MAX_OUTPUT


def test_a_refused_connection_is_retried_once_and_fails(server: HookServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with mock.patch.object(
        socket, "create_connection", wraps=socket.create_connection
    ) as connecting:
        refused("the request to ", f"http://127.0.0.1:{port}/")
    assert connecting.call_count == 2


def test_an_unknown_host_fails() -> None:
    refused("the request to ", "http://no-such-host.invalid/")


def test_a_server_without_tls_fails(server: HookServer) -> None:
    refused("the request to ", server.url.replace("http:", "https:"), timeout="5s")
    assert server.posted == []


def test_secrets_are_sent_but_not_stored(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_TOKEN", SECRET)
    outcome = post(
        f"{server.url}/echo",
        headers={"Authorization": "Bearer {{ENV.HOOK_TOKEN}}"},
        query_params={"key": "{{ ENV.HOOK_TOKEN }}"},
    )
    ((path, headers, _),) = server.posted
    assert headers["Authorization"] == f"Bearer {SECRET}"
    assert path == "/echo?key=s3cret%2Fkey%2B"
    assert outcome.output == "Bearer *** at /echo?key=***\nstatus 403"


def test_variables_that_are_not_allowed_are_rejected(
    server: HookServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "secret")
    monkeypatch.setenv("HOOK_LINES", "a\nX-Other: b")
    header = "{{ ENV.%s }}"
    refused("SPARKLAKE_HOOKS_ENV", server.url, headers={"A": header % "PGPASSWORD"})
    refused("HOOK_NONE is not set", server.url, headers={"A": header % "HOOK_NONE"})
    refused("is not printable ASCII", server.url, headers={"A": header % "HOOK_LINES"})
    assert server.posted == []
