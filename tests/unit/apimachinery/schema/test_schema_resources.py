"""The built-in resources are those of kube-apiserver 1.36, as recorded from its discovery."""

import pytest

from vcsync.apimachinery.resources import Resource
from vcsync.apimachinery.schema.builtin import resources, schema, storage_version_hash

EVERY = "create delete deletecollection get list patch update watch"
RECORDED = """
v1 pods Pod True po all xPOwRZ+Yhw8=
v1 namespaces Namespace False ns - Q3oi5N2YM8M=
v1 secrets Secret True - - S6u1pOWzb84=
v1 events Event True ev - r2yiGXH7wu8=
v1 bindings Binding True - - -
v1 componentstatuses ComponentStatus False cs - -
apps/v1 deployments Deployment True deploy all 8aSe+NMegvE=
events.k8s.io/v1 events Event True ev - r2yiGXH7wu8=
autoscaling/v1 horizontalpodautoscalers HorizontalPodAutoscaler True hpa all qwQve8ut294=
autoscaling/v2 horizontalpodautoscalers HorizontalPodAutoscaler True hpa all qwQve8ut294=
batch/v1 cronjobs CronJob True cj all sd5LIXh4Fjs=
storage.k8s.io/v1 volumeattributesclasses VolumeAttributesClass False vac - tIjydgKBC5w=
apiextensions.k8s.io/v1 customresourcedefinitions CustomResourceDefinition False crd,crds api-extensions jfWCUB31mvA=
admissionregistration.k8s.io/v1 mutatingadmissionpolicies MutatingAdmissionPolicy False - api-extensions LYmCf+UMVdg=
resource.k8s.io/v1 resourceclaims ResourceClaim True - - wgAZaHcZxUg=
flowcontrol.apiserver.k8s.io/v1 flowschemas FlowSchema False - - GJVAJZSZBIw=
authorization.k8s.io/v1 localsubjectaccessreviews LocalSubjectAccessReview True - - -
"""


def found(api_version: str, plural: str) -> Resource:
    return next(each for each in resources() if (each.api_version, each.plural) == (api_version, plural))


def words(text: str) -> tuple[str, ...]:
    return () if text == "-" else tuple(text.split(","))


@pytest.mark.parametrize("line", RECORDED.strip().splitlines(), ids=lambda line: " ".join(line.split()[:2]))
def test_a_resource_matches_recorded_discovery(line: str) -> None:
    api_version, plural, kind, namespaced, short, categories, stored = line.split()
    resource = found(api_version, plural)
    assert (resource.kind, resource.namespaced) == (kind, namespaced == "True")
    assert resource.short_names == words(short)
    assert resource.categories == words(categories)
    assert resource.storage_version_hash == stored.strip("-")
    assert resource.singular == kind.lower()


def test_every_resource_is_listed_once() -> None:
    keys = [(each.group, each.version, each.plural) for each in resources()]
    assert len(keys) == len(set(keys)) == 68


@pytest.mark.parametrize(
    ("api_version", "plural", "verbs"),
    [
        ("v1", "pods", EVERY),
        ("v1", "namespaces", EVERY.replace("deletecollection ", "")),
        ("v1", "bindings", "create"),
        ("v1", "componentstatuses", "get list"),
        ("authentication.k8s.io/v1", "tokenreviews", "create"),
    ],
)
def test_resources_have_the_verbs_of_discovery(api_version: str, plural: str, verbs: str) -> None:
    assert found(api_version, plural).verbs == tuple(verbs.split())


@pytest.mark.parametrize(
    ("plural", "subresource", "kind", "verbs"),
    [
        ("pods", "eviction", ("policy", "v1", "Eviction"), ("create",)),
        ("pods", "binding", ("", "v1", "Binding"), ("create",)),
        ("pods", "resize", ("", "v1", "Pod"), ("get", "patch", "update")),
        ("pods", "log", ("", "v1", "Pod"), ("get",)),
        ("namespaces", "finalize", ("", "v1", "Namespace"), ("update",)),
        ("replicationcontrollers", "scale", ("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
        ("serviceaccounts", "token", ("authentication.k8s.io", "v1", "TokenRequest"), ("create",)),
    ],
)
def test_subresources_carry_their_own_kind(
    plural: str, subresource: str, kind: tuple[str, str, str], verbs: tuple[str, ...]
) -> None:
    sub = found("v1", plural).subresources[subresource]
    assert (sub.group, sub.version, sub.kind) == kind
    assert sub.verbs == verbs


@pytest.mark.parametrize(
    ("api_version", "plural", "kept"),
    [
        ("events.k8s.io/v1", "events", "v1"),
        ("v1", "events", "v1"),
        ("autoscaling/v1", "horizontalpodautoscalers", "autoscaling/v2"),
        ("autoscaling/v2", "horizontalpodautoscalers", "autoscaling/v2"),
        ("apps/v1", "deployments", "apps/v1"),
    ],
)
def test_views_of_an_object_are_stored_as_one_type(api_version: str, plural: str, kept: str) -> None:
    assert found(api_version, plural).storage_api_version == kept


def test_every_stored_or_sent_kind_has_a_schema() -> None:
    options = {"NodeProxyOptions", "PodAttachOptions", "PodExecOptions", "PodPortForwardOptions"}
    options |= {"PodProxyOptions", "ServiceProxyOptions"}
    for each in resources():
        assert schema(each.group, each.version, each.kind), each
        assert not each.list_kind or schema(each.group, each.version, each.list_kind), each
        assert schema(each.storage_group, each.storage, each.kind), each
        for sub in each.subresources.values():
            assert sub.kind in options or schema(sub.group, sub.version, sub.kind), sub


def test_the_storage_version_hash_is_that_of_discovery() -> None:
    assert storage_version_hash("", "v1", "Pod") == "xPOwRZ+Yhw8="
