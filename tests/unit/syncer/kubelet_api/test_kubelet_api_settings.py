"""Ports of the kubelet API."""

from hypothesis import given
from hypothesis import strategies as st

from vcsync.syncer.kubelet_api.settings import candidates


@given(st.text(), st.integers(1, 100), st.integers(0, 20), st.sets(st.integers(1, 120)))
def test_every_port_that_is_not_taken_is_tried_once(
    tenant: str, first: int, more: int, taken: set[int]
) -> None:
    found = list(candidates(tenant, (first, first + more), taken))
    assert sorted(found) == sorted(set(range(first, first + more + 1)) - taken)


def test_a_tenant_prefers_the_same_port_in_every_process() -> None:
    first = {next(candidates(tenant, (10300, 11299), ())) for _ in range(3) for tenant in ("a-1", "b-2")}
    assert len(first) == 2
