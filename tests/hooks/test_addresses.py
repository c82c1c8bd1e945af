"""Which addresses are public, and which hosts webhooks may go to."""

from __future__ import annotations

import socket
from unittest import mock

import pytest

from sparklake.hooks.addresses import PrivateAddressError, addresses_of, is_public

PUBLIC = ["8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1"),
    *("0.0.0.0", "255.255.255.255", "224.0.0.1", "::1", "::", "fe80::1", "fc00::1", "ff02::1"),
    # Private ones in the clothes of public ones.
    *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"),
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(PrivateAddressError, match="SPARKLAKE_HOOKS_PRIVATE"):
        addresses_of(address, 80, ["9.9.9.9", "example.com"])


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1"])
def test_other_spellings_of_this_machine_are_private(host: str) -> None:
    with pytest.raises(PrivateAddressError):
        addresses_of(host, 80, [])


@pytest.mark.parametrize("private", ["127.0.0.1", "127.0.0.0/8", "localh*", "LOCALHOST"])
def test_what_is_allowed_by_name_or_network(private: str) -> None:
    host = "localhost" if "LO" in private.upper() else "127.0.0.1"
    assert "127.0.0.1" in addresses_of(host, 80, [private, "::1"])


def test_one_private_address_of_several_is_enough_to_refuse() -> None:
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("8.8.8.8", "10.0.0.1")
    ]
    with mock.patch.object(socket, "getaddrinfo", return_value=both):
        with pytest.raises(PrivateAddressError, match=r"10\.0\.0\.1"):
            addresses_of("two.example.com", 80, [])
        assert addresses_of("two.example.com", 80, ["10.0.0.0/8"]) == ["8.8.8.8", "10.0.0.1"]
