"""The options by which a new tenant gets a name server."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from vcsync.cli.command.errors import WrongInputError
from vcsync.cli.tenant.dns import new_name_server
from vcsync.cli.tenant.embedded import create
from vcsync.registration import name_server


def test_a_tenant_gets_a_name_server_only_if_it_is_asked_for() -> None:
    assert new_name_server(with_dns=False, image=None) is None


@pytest.mark.parametrize(
    ("image", "used"), [(None, name_server.DEFAULT_IMAGE), ("mirror.example/dns:v1", "mirror.example/dns:v1")]
)
def test_the_image_is_the_given_one_or_that_of_this_version(image: str | None, used: str) -> None:
    wanted = new_name_server(with_dns=True, image=image)
    assert wanted is not None
    assert wanted.image == used


@pytest.mark.parametrize("image", ["", " ", "a b", "x\n", "a" * 513])
def test_an_image_that_names_none_is_refused(image: str) -> None:
    with pytest.raises(WrongInputError, match="is no image of CoreDNS: give one such as"):
        new_name_server(with_dns=True, image=image)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--dns-image", "x"), "give --dns, too"),
        (("--dns", "--dns-image", ""), "is no image of CoreDNS"),
        (("--dns", "--nodes", "own"), "--dns is for tenants"),
    ],
)
def test_create_refuses_options_that_do_not_fit_before_it_creates_anything(
    options: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(create, ["acme", *options, "--data", str(tmp_path / "absent")])
    assert result.exit_code != 0
    assert message in result.output + str(result.exception)
