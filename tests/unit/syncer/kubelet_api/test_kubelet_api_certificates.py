"""TLS of the kubelet API."""

from datetime import UTC, datetime

import pytest

from vcsync.cli.run.kubelet_api_options import KubeletOptions
from vcsync.syncer.kubelet_api.certificates import self_signed, server_context
from vcsync.syncer.kubelet_api.settings import KubeletSettings


@pytest.mark.parametrize(
    "authority", ["", "x", "Zertifikat für Änne", "-----BEGIN CERTIFICATE-----\nx\n", "\0"]
)
def test_what_a_tenant_writes_as_its_authority_is_refused_as_a_whole(authority: str) -> None:
    identity = self_signed("127.0.0.1", datetime.now(UTC))
    with pytest.raises(ValueError, match=r".*"):
        server_context(identity, authority)


def test_settings_show_no_key() -> None:
    assert "KEY" not in repr(KubeletSettings(address="127.0.0.1", ports=(1, 2), identity=b"KEY"))
    assert "KEY" not in repr(KubeletOptions("127.0.0.1", "", (1, 2), b"KEY"))
