"""Warnings about Ingresses."""

from typing import Any

import pytest

from vcsync.apimachinery.kinds.behaviours import BEHAVIOURS

INGRESS = BEHAVIOURS["networking.k8s.io", "Ingress"]
CLASS = "kubernetes.io/ingress.class"


@pytest.mark.parametrize(
    ("annotations", "spec", "warned"),
    [({}, {}, False), ({CLASS: "a"}, {}, True), ({CLASS: "a"}, {"ingressClassName": "a"}, False)],
)
def test_the_old_annotation_is_warned_of_where_it_alone_names_the_class(
    annotations: dict[str, str], spec: dict[str, Any], warned: bool
) -> None:
    made = {"metadata": {"name": "i", "annotations": annotations}, "spec": spec}
    assert bool(INGRESS.warnings(made, None)) == warned
    assert not INGRESS.warnings(made, made)
