"""Who a request comes from: nobody makes himself another by what he writes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenreel.server.access import Senders, address_of

PROXY, INNER = "10.0.0.2", "10.0.1.7"


def sender(peer: str | None, *forwarded: str, proxies: tuple[str, ...] = ()) -> str:
    headers = [(b"x-forwarded-for", value.encode("latin-1")) for value in forwarded]
    scope = {"type": "http", "headers": headers, "client": None if peer is None else (peer, 1)}
    return Senders(proxies).sender(scope)


def test_without_a_trusted_proxy_the_connection_counts() -> None:
    assert sender("192.0.2.1", "198.51.100.7") == "192.0.2.1"
    assert sender("192.0.2.1", "198.51.100.7", proxies=(PROXY,)) == "192.0.2.1"
    assert sender(None, "198.51.100.7", proxies=(PROXY,)) == sender(None) == ""


@pytest.mark.parametrize(
    ("forwarded", "expected"),
    [
        (("198.51.100.7",), "198.51.100.7"),
        (("1.1.1.1, 198.51.100.7",), "198.51.100.7"),  # the first one is what the visitor wrote himself
        (("1.1.1.1", "198.51.100.7"), "198.51.100.7"),
        ((f"1.1.1.1, 198.51.100.7, {INNER}",), "198.51.100.7"),  # through both proxies
        (("198.51.100.7:4711",), "198.51.100.7"),
        (("2001:db8:1:2:3:4:5:6",), "2001:db8:1:2::/64"),
        (("[2001:db8:1:2::9]:443",), "2001:db8:1:2::/64"),
        (("::ffff:198.51.100.7",), "198.51.100.7"),
        (("unknown",), PROXY),
        (("198.51.100.7, nonsense",), PROXY),
        ((f"nonsense, {INNER}",), INNER),
        (("",), PROXY),
        ((), PROXY),
        ((f"{INNER}, {PROXY}",), INNER),  # the proxy itself asks
    ],
)
def test_a_trusted_proxy_says_whom_it_was_called_by(forwarded: tuple[str, ...], expected: str) -> None:
    assert sender(PROXY, *forwarded, proxies=(PROXY, "10.0.1.0/24")) == expected


@given(st.text(alphabet="0123456789abcdef.:,[] \t%-", max_size=40))
def test_what_a_visitor_writes_never_changes_who_he_is(written: str) -> None:
    for way in ((f"{written},198.51.100.7",), (written, "198.51.100.7")):
        assert sender(PROXY, *way, proxies=(PROXY,)) == "198.51.100.7"


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_none(text: str) -> None:
    address_of(text)
