import socket

import pytest

from ragflow_lg.adapters.http.address_guard import AddressGuard, PinnedNetwork, Resolver
from ragflow_lg.base.errors import ServiceError, SettingsError
from tests.harness.rows import each_row, read_rows

PUBLIC = "93.184.215.14"


def resolver_of(*addresses: str) -> Resolver:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        return [(address, port) for address in addresses]

    return resolve


REFUSED = """
0.0.0.0 0.1.2.3 10.1.2.3 100.64.0.1 127.0.0.1 127.255.255.254 172.16.0.1 172.31.255.255 192.0.0.8 192.0.2.1 192.88.99.1
192.168.1.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 239.1.1.1 240.0.0.1 255.255.255.255 169.254.169.254
169.254.170.2 100.100.100.200 168.63.129.16 192.0.0.192 :: ::1 ::127.0.0.1 fe80::1 fe80::1%eth0 fec0::1 fc00::1 fd12::1
fd00:ec2::254 fd20:ce::254 ff02::1 2001::1 2001:db8::1 3fff::1 100::1 4000::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1
::ffff:169.254.169.254 ::ffff:7f00:1 2002:7f00:1:: 2002:5db8:d70e::1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe
64:ff9b:1::5db8:d70e
"""


@each_row("address", REFUSED.split())
async def test_addresses_that_are_not_public_are_refused(address: str) -> None:
    with pytest.raises(ServiceError, match="refused") as caught:
        await AddressGuard(resolve=resolver_of(address)).resolve("host.example", 80)
    assert not caught.value.is_retryable


@each_row("address", [PUBLIC, "2606:2800:21f::1", f"::ffff:{PUBLIC}", "64:ff9b::5db8:d70e", "172.32.0.1"])
async def test_public_addresses_are_allowed(address: str) -> None:
    assert await AddressGuard(resolve=resolver_of(address)).resolve("host.example", 80) == [(address, 80)]


@each_row("answer", [(PUBLIC, "127.0.0.1"), ("::1", PUBLIC), (PUBLIC, "169.254.169.254")])
async def test_one_refused_address_refuses_the_host(answer: tuple[str, ...]) -> None:
    with pytest.raises(ServiceError, match="refused"):
        await AddressGuard(resolve=resolver_of(*answer)).resolve("host.example", 80)


@each_row(("entry", "host", "port", "address"), read_rows("allowed_addresses"))
async def test_an_allow_list_entry_allows_matching_addresses(entry: str, host: str, port: int, address: str) -> None:
    addresses = await AddressGuard([entry], resolve=resolver_of(address)).resolve(host, port)
    assert addresses == [(address, port)]


@each_row(("entry", "host", "port", "address"), read_rows("refused_addresses"))
async def test_an_allow_list_entry_allows_nothing_else(entry: str, host: str, port: int, address: str) -> None:
    """Anyone who controls an allowed name must not get access to the credentials of the machine."""
    with pytest.raises(ServiceError, match=r"\[http\] allow"):
        await AddressGuard([entry], resolve=resolver_of(address)).resolve(host, port)


@each_row("entry", ["", "*", "http://x", "x/y", "x:0", "x:99999", "10.0.0.1/8", "[x]", "a b", "x:", "*x"])
def test_an_invalid_entry_is_an_error_that_names_the_setting(entry: str) -> None:
    with pytest.raises(SettingsError, match=r"\[http\] allow"):
        AddressGuard([entry])


@each_row(
    ("error", "is_retryable"),
    [(socket.gaierror(-2, "Name or service not known"), True), (OSError(), True), (UnicodeError("too long"), False)],
)
async def test_failed_resolution_is_an_error(error: Exception, is_retryable: bool) -> None:
    async def resolve(host: str, port: int) -> list[tuple[str, int]]:
        raise error

    with pytest.raises(ServiceError, match="cannot be resolved") as caught:
        await AddressGuard(resolve=resolve).resolve("host.example", 80)
    assert caught.value.is_retryable is is_retryable
    with pytest.raises(ServiceError, match="no address") as caught:
        await AddressGuard(resolve=resolver_of()).resolve("host.example", 80)
    assert caught.value.is_retryable


async def test_socket_files_are_refused() -> None:
    with pytest.raises(ServiceError, match="socket file"):
        await PinnedNetwork(AddressGuard()).connect_unix_socket("/run/docker.sock")
