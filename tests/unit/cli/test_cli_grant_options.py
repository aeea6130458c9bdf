"""The options of `vcsync run controlplane` for grants between tenants."""

import pytest

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.controlplane.grant_options import grants_of


def grants(*accepted, on=True):
    return grants_of({"tenant_grants": on, "accept_tenant_grants": accepted})


def test_there_are_no_grants_unless_the_operator_turns_them_on():
    assert grants(on=False) is None
    assert grants() == frozenset()


def test_the_operator_accepts_grants_of_named_pairs():
    assert grants("umbrella=acme", "acme=umbrella") == {("umbrella", "acme"), ("acme", "umbrella")}


@pytest.mark.parametrize(
    "text", ["acme", "=acme", "acme=", "all=acme", "acme=system", "acme=acme", "a=b=c", "A=b", "*=b"]
)
def test_a_malformed_pair_is_refused(text):
    with pytest.raises(WrongInputError, match="--accept-tenant-grants"):
        grants(text)


def test_accepting_needs_grants():
    with pytest.raises(WrongInputError, match="needs --tenant-grants"):
        grants("umbrella=acme", on=False)
