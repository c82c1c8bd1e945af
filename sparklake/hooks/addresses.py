"""Where webhooks may go: to public addresses, and to others that settings name."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from sparklake.graveler.globs import is_word

_NAT64 = ip_network("64:ff9b::/96")
_LOW_32 = (1 << 32) - 1

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
    """Tells whether an address, and each that is written inside of it, is one of the internet."""
    # An interface is said behind a '%'; such an address is of a link.
    return "%" not in text and all(
        each.is_global and not each.is_multicast for each in _meant(ip_address(text))
    )


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


def _meant(address: Address) -> Iterator[Address]:
    """Yields an address, and the IPv4 addresses that gateways take it for."""
    inside = [address] if isinstance(address, IPv4Address) else list(_inside(address))
    yield from inside
    if address not in inside and not _is_mapped(address):
        yield address


def _is_mapped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.ipv4_mapped is not None


def _inside(address: IPv6Address) -> Iterator[IPv4Address]:
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _NAT64:
        yield IPv4Address(int(address) & _LOW_32)
