"""Webhooks: posts of events to allowed HTTP servers."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as LateError  # Not that of Python 3.10.
from contextlib import suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlencode, urljoin, urlsplit

from sparklake.config import HookSettings, HookType
from sparklake.hooks.events import HookOutcome, failed, passed
from sparklake.hooks.patterns import is_host
from sparklake.hooks.properties import Webhook, is_allowed, seconds
from sparklake.hooks.secrets import RAW_BYTES, Secrets
from sparklake.interrupts import Threads

_LOW_32 = (1 << 32) - 1

_RESERVED = tuple(
    ip_network(each)
    for each in (
        # Special IPv4 addresses in IANA's registry. No web server has one.
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Azure's metadata address. Those of other clouds are in the networks above.
        "168.63.129.16/32",
        # Special IPv6 networks within the allocated range.
        *("2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
_ALLOCATED = ip_network("2000::/3")
"""The public IPv6 range, without local and multicast addresses."""

_MAPPED, _NAT64 = ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""The prefixes of embedded IPv4 addresses for a site's routers (ISATAP)."""

Address = IPv4Address | IPv6Address


class PrivateAddressError(ValueError):
    """A host with a private address."""


def addresses_of(host: str, port: int, private: Sequence[str]) -> list[str]:
    """Resolve a host once, because a second lookup may differ, and reject private addresses."""
    sockets = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(each[4][0]) for each in sockets))
    for each in addresses:
        if not _may_reach(host, each, private):
            raise PrivateAddressError(
                f"{host} has the address {each}, which is not public: to allow it, set "
                "hooks_private in the settings or SPARKLAKE_HOOKS_PRIVATE"
            )
    return addresses


def is_public(text: str) -> bool:
    # Addresses with an interface after '%' are link-local. `is_global` differs between releases.
    return "%" not in text and _is_public(ip_address(text))


def _is_public(address: Address) -> bool:
    if any(address in each for each in _RESERVED):
        return False
    if isinstance(address, IPv4Address):
        return True
    if address in _MAPPED or address in _NAT64:
        return _is_public(IPv4Address(int(address) & _LOW_32))
    return address in _ALLOCATED and all(map(_is_public, _tunnelled(address)))


def _may_reach(host: str, address: str, private: Sequence[str]) -> bool:
    if is_public(address):
        return True
    bare = ip_address(address.partition("%")[0])
    inner = getattr(bare, "ipv4_mapped", None) or bare
    for each in private:
        try:
            network = ip_network(each, strict=False)
        except ValueError:
            if is_host(each, host):
                return True
        else:
            if inner in network:
                return True
    return False


def _tunnelled(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses embedded by 6to4 and ISATAP."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if (int(address) >> 32) & _LOW_32 in _ISATAP:
        yield IPv4Address(int(address) & _LOW_32)


_REDIRECTS = (301, 302, 303, 307, 308)
_KEEP_METHOD = (307, 308)
_MAX_REDIRECTS = 3
_ROUNDS = 2
_WAIT_SECONDS = 0.5
_PORTS = {"http": 80, "https": 443}


def post_event(
    webhook: Webhook, document: Mapping[str, Any], settings: HookSettings, secrets: Secrets
) -> HookOutcome:
    """Post an event as JSON. Any response but 2xx, or a timeout, is a failure.

    Connecting is tried twice. A possibly sent event is never resent.
    """
    try:
        url, headers = _filled(webhook, secrets)
    except ValueError as error:
        return failed(str(error))
    limit = seconds(webhook.timeout)
    body, deadline = json.dumps(document).encode(), time.monotonic() + limit
    outcome = _Call(body, settings, webhook, secrets, deadline).within_limit(url, headers)
    if outcome is None:
        return failed(f"not finished after {limit:g} seconds")
    return replace(outcome, output=secrets.kept(outcome.output))


def _filled(webhook: Webhook, secrets: Secrets) -> tuple[str, dict[str, str]]:
    headers = {name: secrets.filled(value) for name, value in webhook.headers.items()}
    for name, value in headers.items():
        if not value.isprintable() or not value.isascii():
            raise ValueError(f"the header {name} is not printable ASCII")
    parameters = {
        name: [secrets.filled(each) for each in ([value] if isinstance(value, str) else value)]
        for name, value in webhook.query_params.items()
    }
    if not parameters:
        return webhook.url, headers
    parts = urlsplit(webhook.url)
    query = "&".join(filter(None, (parts.query, urlencode(parameters, doseq=True))))
    return parts._replace(query=query, fragment="").geturl(), headers


@dataclass(slots=True)
class _Call:
    body: bytes
    settings: HookSettings
    webhook: Webhook
    secrets: Secrets
    deadline: float
    _socket: socket.socket | None = None

    def within_limit(self, url: str, headers: Mapping[str, str]) -> HookOutcome | None:
        """Run in a thread, because DNS lookups have no timeout. Returns None on a timeout."""
        threads = Threads(1)
        try:
            outcome = threads.submit(self._posted, url, headers)
            return outcome.result(max(0.0, self.deadline - time.monotonic()))
        except (TimeoutError, LateError):
            return None
        except (OSError, HTTPException, ValueError) as error:
            return failed(f"the request to {urlsplit(url).hostname} failed: {error}")
        finally:
            # The thread can send nothing more: its socket is closed, and it gets no other.
            self.deadline = 0.0
            self._cut()
            threads.shutdown(wait=False)

    def _posted(self, url: str, headers: Mapping[str, str]) -> HookOutcome:
        for _ in range(_MAX_REDIRECTS + 1):
            # It must be closed here: an error would keep it, and its socket, in memory.
            with self._request(url, headers) as response:
                if response.status not in _REDIRECTS:
                    raw = response.read(RAW_BYTES)
                    is_cut = len(raw) == RAW_BYTES
                    body = self.secrets.kept(raw.decode(errors="replace"), is_cut=is_cut)
                    text = f"{body}\nstatus {response.status}".lstrip()
                    return passed(text) if 200 <= response.status < 300 else failed(text)
                target = response.getheader("Location") or ""
            self._cut()
            if not self.webhook.follow_redirects or response.status not in _KEEP_METHOD:
                return failed(f"status {response.status}: redirects are not followed")
            target = urljoin(url, target)
            old, new = urlsplit(url), urlsplit(target)
            hook = Webhook(target)
            if old.scheme == "https" and new.scheme != "https":
                raise ValueError("it redirects to a URL without encryption")
            if not is_allowed(self.settings, HookType.WEBHOOK, hook):
                raise ValueError(f"it redirects to {new.hostname}, which hooks_allow does not list")
            is_same = (old.scheme, old.netloc) == (new.scheme, new.netloc)
            url, headers = target, headers if is_same else {}
        return failed(f"more than {_MAX_REDIRECTS} redirects")

    def _request(self, url: str, headers: Mapping[str, str]) -> HTTPResponse:
        parts = urlsplit(url)
        host, port = str(parts.hostname), parts.port or _PORTS[parts.scheme]
        self._socket = self._connect(host, port)
        connection = HTTPConnection(host, port)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
            connection = HTTPSConnection(host, port, context=context)
        connection.sock, connection.auto_open = self._socket, 0
        path = parts._replace(scheme="", netloc="", fragment="").geturl()
        if not path.startswith("/"):
            path = f"/{path}"
        self._remaining()
        own = {"Content-Type": "application/json", "Connection": "close"}
        all_headers = {"User-Agent": "sparklake", **headers, **own}
        connection.request("POST", path, self.body, all_headers)
        return connection.getresponse()

    def _connect(self, host: str, port: int) -> socket.socket:
        problem: OSError | None = None
        for at in range(_ROUNDS):
            if at:
                time.sleep(min(_WAIT_SECONDS, self._remaining()))
            for each in addresses_of(host, port, self.settings.private):
                try:
                    return socket.create_connection((each, port), self._remaining())
                except OSError as error:
                    problem = error
        raise problem or OSError(f"{host} has no address")

    def _remaining(self) -> float:
        seconds = self.deadline - time.monotonic()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def _cut(self) -> None:
        connection = self._socket
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
