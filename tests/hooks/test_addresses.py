"""Public addresses, and the allowed hosts of webhooks."""

from __future__ import annotations

import socket
from unittest import mock

import pytest

from sparklake.hooks.webhooks import PrivateAddressError, addresses_of, is_public
from tests.support.cases import for_each

PUBLIC = [
    *("8.8.8.8", "1.1.1.1", "100.63.255.255", "100.128.0.0", "172.15.0.1", "172.32.0.1"),
    *("192.0.1.1", "192.88.98.1", "198.17.0.1", "198.20.0.1", "223.255.255.255", "168.63.129.17"),
    *("2606:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888", "2000::1"),
    # As gateways and tunnels take public ones.
    *("::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "2606:4700::5efe:8.8.8.8"),
]
PRIVATE = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "0.0.0.0"),
    *("0.1.2.3", "100.64.0.1", "100.127.255.255", "255.255.255.255", "240.0.0.1", "224.0.0.1"),
    *("192.0.0.1", "192.0.0.9", "192.0.0.10", "192.0.0.255", "192.0.2.1", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.1", "203.0.113.1", "192.88.99.1", "192.88.99.255"),
    *("::1", "::", "fe80::1", "fe80::1%1", "fc00::1", "fdff::1", "ff02::1", "ff0e::1"),
    *("fec0::1", "feff::1", "100::1", "2001:db8::1", "3fff::1", "5f00::1", "4000::1", "1::1"),
    *("2001:2::1", "2001:10::1", "2001:20::1"),
    # Metadata of clouds.
    *("169.254.169.254", "169.254.170.2", "169.254.0.23", "fd00:ec2::254", "fd20:ce::254"),
    *("fd00:42::42", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    # IPv4 in IPv6: mapped, compatible, translated, NAT64 of the internet and of a site.
    *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:168.63.129.16", "::127.0.0.1"),
    *("::10.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "::ffff:0:10.0.0.1", "::ffff:0:8.8.8.8"),
    *("64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b::10.0.0.1", "64:ff9b:1::1"),
    *("64:ff9b:1::8.8.8.8", "64:ff9b:1:ffff:ffff:ffff:10.0.0.1", "64:ff9b:2::8.8.8.8"),
    # 6to4, Teredo and ISATAP.
    *("2002:7f00:1::", "2002:a00:1::1", "2002:a9fe:a9fe::1", "2002:c058:6301::"),
    *("2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:0:7f00:1::f5ff:fffe"),
    *("2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:169.254.169.254"),
]


@for_each("address", PUBLIC)
def test_a_public_address_is_public(address: str) -> None:
    assert is_public(address)


@for_each("address", PRIVATE)
def test_a_private_address_is_rejected(address: str) -> None:
    assert not is_public(address)
    with pytest.raises(PrivateAddressError, match="SPARKLAKE_HOOKS_PRIVATE"):
        addresses_of(address, 80, ["9.9.9.9", "example.com"])


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1"])
def test_other_spellings_of_this_machine_are_private(host: str) -> None:
    with pytest.raises(PrivateAddressError):
        addresses_of(host, 80, [])


@pytest.mark.parametrize("private", ["127.0.0.1", "127.0.0.0/8", "localh*", "LOCALHOST"])
def test_a_private_host_is_allowed_by_name_or_network(private: str) -> None:
    host = "localhost" if "LO" in private.upper() else "127.0.0.1"
    assert "127.0.0.1" in addresses_of(host, 80, [private, "::1"])


def test_one_private_address_among_several_is_rejected() -> None:
    both = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 80)) for each in ("8.8.8.8", "10.0.0.1")
    ]
    with mock.patch.object(socket, "getaddrinfo", return_value=both):
        with pytest.raises(PrivateAddressError, match=r"10\.0\.0\.1"):
            addresses_of("two.example.com", 80, [])
        assert addresses_of("two.example.com", 80, ["10.0.0.0/8"]) == ["8.8.8.8", "10.0.0.1"]
