"""Subsets of Endpoints in canonical form cost what they contain, not the product of their addresses and ports."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vcsync.controllers.endpoints import subsets
from vcsync.controllers.endpoints.subsets import repack

PORTS = st.lists(st.sampled_from([80, 443, 8080]), max_size=3, unique=True)
ADDRESSES = st.lists(
    st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]), max_size=3, unique=True
)
SUBSETS = st.lists(st.tuples(PORTS, ADDRESSES, ADDRESSES), max_size=4)


def subset(ports: list[int], ready: list[str], unready: list[str]) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "ports": [{"name": f"p{each}", "port": each} for each in ports],
        "addresses": [{"ip": each} for each in ready],
        "notReadyAddresses": [{"ip": each} for each in unready],
    }
    return {key: part for key, part in parts.items() if part}


def served(made: list[dict[str, Any]]) -> dict[tuple[str, int], bool]:
    """Return whether each pair of address and port is ready."""
    found: dict[tuple[str, int], bool] = {}
    for each in made:
        for port in each.get("ports") or [{"port": 0}]:
            for place, ready in (("addresses", True), ("notReadyAddresses", False)):
                for address in each.get(place, ()):
                    pair = address["ip"], port["port"]
                    found[pair] = ready and found.get(pair, True)
    return found


@given(SUBSETS)
def test_the_canonical_form_serves_the_same_and_is_final(
    listed: list[tuple[list[int], list[str], list[str]]],
) -> None:
    written = [subset(*each) for each in listed]
    packed = repack(written)
    assert served(packed) == served(written)
    assert repack(packed) == packed
    assert repack(reversed(written)) == packed


@given(SUBSETS)
def test_subsets_that_overlap_too_much_are_merged_only_where_their_ports_are_the_same(
    listed: list[tuple[list[int], list[str], list[str]]],
) -> None:
    before, subsets.MOST_PAIRS = subsets.MOST_PAIRS, 0
    try:
        written = [subset(*each) for each in listed]
        packed = repack(written)
        assert served(packed) == served(written)
        assert repack(packed) == packed
        assert len({str(each.get("ports")) for each in packed}) == len(packed)
    finally:
        subsets.MOST_PAIRS = before


def test_many_addresses_with_many_ports_are_no_product() -> None:
    written = subset(list(range(1, 5_001)), [f"10.{n // 250}.{n % 250}.1" for n in range(10_000)], [])
    [packed] = repack([written, written])
    assert (len(packed["ports"]), len(packed["addresses"])) == (5_000, 10_000)
