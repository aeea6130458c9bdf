"""Options of streaming requests, as admission sees them."""

import pytest

from vcsync.apimachinery.resources import Subresource
from vcsync.apiserver.request.connect_options import connect_options
from vcsync.apiserver.request.request_info import parse_query


@pytest.mark.parametrize(
    ("name", "query", "path", "options"),
    [
        ("exec", "command=a&command=b&stdout=true&container=c", "", {"command": ["a", "b"], "stdout": True, "container": "c"}),
        ("exec", "", "", {"command": None}),
        ("attach", "stdin=1&tty=false&command=x", "", {"stdin": True}),
        ("portforward", "ports=80,81&ports=82", "", {"ports": [80, 81, 82]}),
        ("portforward", "", "", {}),
        ("proxy", "a=b", "/x/y", {"path": "/x/y"}),
    ],
)  # fmt: skip
def test_options_come_from_the_query(name, query, path, options):
    found = connect_options(Subresource(name, (), "", "v1", "Kind"), parse_query(query), path)
    assert found == {"kind": "Kind", "apiVersion": "v1", **options}
