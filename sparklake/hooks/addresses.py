"""Where webhooks may go: to public addresses, and to others that settings name."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from sparklake.graveler.globs import is_word

_LOW_32 = (1 << 32) - 1

_RESERVED = tuple(
    ip_network(each)
    for each in (
        # Special addresses of IPv4 in IANA's registry, of which no web server is one.
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16"),
        *("172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16"),
        *("198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
        # Metadata of virtual machines in Azure. Those of other clouds are in the networks above.
        "168.63.129.16/32",
        # The same of IPv6, within what is given out.
        *("2001::/23", "2001:db8::/32", "3fff::/20"),
    )
)
_GIVEN_OUT = ip_network("2000::/3")
"""All public addresses of IPv6; unique local, site-local, link-local and multicast are outside."""

_MAPPED, _NAT64 = ip_network("::ffff:0:0/96"), ip_network("64:ff9b::/96")
_ISATAP = (0x0000_5EFE, 0x0200_5EFE)
"""What stands before an IPv4 address in an IPv6 address that a site's own routers take for it."""

Address = IPv4Address | IPv6Address


class PrivateAddressError(ValueError):
    """Says that a host is at an address that is not public."""


def addresses_of(host: str, port: int, private: Sequence[str]) -> list[str]:
    """Returns the addresses of a host, all of which may be connected to.

    They must be connected to themselves: asked again, a name may lead elsewhere. Raises
    PrivateAddressError where one may not, OSError for a host that is not known.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
    for each in addresses:
        if not _may_reach(host, each, private):
            raise PrivateAddressError(
                f"{host} is at {each}, which is not public: set hooks_private in the settings, or "
                "SPARKLAKE_HOOKS_PRIVATE, if webhooks may go there"
            )
    return addresses


def is_public(text: str) -> bool:
    """Tells whether an address, and each that is written inside of it, is one of the internet.

    It does not ask what the library takes for global, which differs between Python's releases.
    """
    # An interface is said behind a '%'; such an address is of a link.
    return "%" not in text and _is_public(ip_address(text))


def _is_public(address: Address) -> bool:
    if any(address in each for each in _RESERVED):
        return False
    if isinstance(address, IPv4Address):
        return True
    if address in _MAPPED or address in _NAT64:
        return _is_public(IPv4Address(int(address) & _LOW_32))
    return address in _GIVEN_OUT and all(map(_is_public, _tunnelled(address)))


def _may_reach(host: str, address: str, private: Sequence[str]) -> bool:
    if is_public(address):
        return True
    bare = ip_address(address.partition("%")[0])
    inner = getattr(bare, "ipv4_mapped", None) or bare
    for each in private:
        try:
            network = ip_network(each, strict=False)
        except ValueError:
            if is_word(each.lower(), host.lower()):
                return True
        else:
            if inner in network:
                return True
    return False


def _tunnelled(address: IPv6Address) -> Iterator[IPv4Address]:
    """Yield the IPv4 addresses that routers may take an address of IPv6 for: 6to4 and ISATAP."""
    if address.sixtofour is not None:
        yield address.sixtofour
    if (int(address) >> 32) & _LOW_32 in _ISATAP:
        yield IPv4Address(int(address) & _LOW_32)
