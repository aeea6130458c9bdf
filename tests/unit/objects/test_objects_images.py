"""Images by registry: references with all defaults, and references that try to look like another registry's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.objects.images import is_allowed, outside, repository_of

DIGEST = "@sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("nginx", "docker.io/library/nginx"),
        ("nginx:1.27", "docker.io/library/nginx"),
        ("team/web", "docker.io/team/web"),
        ("docker.io/nginx", "docker.io/library/nginx"),
        ("index.docker.io/nginx", "docker.io/library/nginx"),
        ("localhost/web", "localhost/web"),
        ("localhost:5000/web:1", "localhost:5000/web"),
        ("registry.example.com/web" + DIGEST, "registry.example.com/web"),
        ("registry.example.com/a/b/c:v1" + DIGEST, "registry.example.com/a/b/c"),
        ("REGISTRY.example.com/web", "registry.example.com/web"),
        ("Registry/web", "registry/web"),
        ("[::1]:5000/web", "[::1]:5000/web"),
        ("", ""),
        (" registry.example.com/web", ""),
        ("registry.example.com/../evil", ""),
        ("registry.example.com//web", ""),
        ("registry.example.com/web\n", ""),
        ("https://registry.example.com/web", ""),
        ("registry.example.com@evil.org/web", ""),
        ("registry.example.com/WEB", ""),
        ("registry.example.com/wéb", ""),
    ],
)
def test_a_reference_names_one_repository(image, repository):
    assert repository_of(image) == repository


@pytest.mark.parametrize(
    ("image", "allowed"),
    [
        ("registry.example.com/team", True),
        ("registry.example.com/team/web:1", True),
        ("registry.example.com/teams/web", False),
        ("registry.example.com/other", False),
        ("registry.example.com:443/team/web", False),
        ("registry.example.com.evil.org/team/web", False),
        ("evil.org/registry.example.com/team/web", False),
        ("nginx", True),
        ("docker.io/library/nginx", True),
        ("someone/nginx", False),
        ("library/../someone/nginx", False),
        ("", False),
    ],
)
def test_only_images_of_the_registries_are_allowed(image, allowed):
    assert is_allowed(image, ("registry.example.com/team", "docker.io/library")) is allowed


@given(st.text(alphabet="registry.example.com/team:@[]%A_-\n", max_size=60))
def test_whatever_is_allowed_begins_with_the_registry(image):
    if is_allowed(image, ("registry.example.com/team",)):
        assert image.lower().startswith("registry.example.com/team")


@pytest.mark.parametrize("part", ["containers", "initContainers", "ephemeralContainers"])
def test_every_kind_of_container_is_looked_at(part):
    spec = {part: [{"name": "c", "image": "nginx"}]}
    assert outside(spec, {}, ("ghcr.io",)) == ["container \"c\" uses image 'nginx'"]
    assert outside(spec, spec, ("ghcr.io",)) == []
    assert outside(spec, {}, ()) == []


def test_volumes_of_images_are_looked_at():
    spec = {"volumes": [{"name": "v", "image": {"reference": "nginx"}}, {"name": "e", "emptyDir": {}}]}
    assert outside(spec, {}, ("ghcr.io",)) == ["volume \"v\" uses image 'nginx'"]
