"""Each built-in kind is declared once, in the module of its name, and says nothing of what does not exist."""

import importlib
import pkgutil
import re

import pytest

from vcsync.apimachinery import kinds
from vcsync.apimachinery.kinds.all_kinds import KINDS, by_plural, reset
from vcsync.apimachinery.kinds.common.kind import Kind
from vcsync.apimachinery.patch.resets import NOTHING
from vcsync.apimachinery.schema import builtin

SERVED = {(each.group, each.plural): each for each in builtin.resources()}
NEVER_STORED = {"bindings", "localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectreviews"} | {
    "selfsubjectrulesreviews",
    "subjectaccessreviews",
    "tokenreviews",
}


def name_of(declared: Kind) -> str:
    return f"{declared.group}/{declared.kind}"


def modules() -> dict[str, Kind]:
    """The declarations of all modules, whether the list has them or not."""
    found = {}
    for each in pkgutil.walk_packages(kinds.__path__, f"{kinds.__name__}."):
        declared = getattr(importlib.import_module(each.name), "KIND", None)
        if declared is not None:
            found[each.name] = declared
    return found


def test_the_list_has_the_kind_of_every_module() -> None:
    assert sorted(map(name_of, modules().values())) == sorted(map(name_of, KINDS))


@pytest.mark.parametrize("module", modules())
def test_a_kind_is_in_the_module_of_its_name(module: str) -> None:
    declared = modules()[module]
    *_, folder, name = module.split(".")
    assert name.replace("_", "") == declared.kind.lower()
    assert folder == (declared.group or "core").partition(".")[0]


def test_every_stored_kind_is_declared() -> None:
    assert [key for key in SERVED if by_plural(*key) is None and key[1] not in NEVER_STORED] == []


@pytest.mark.parametrize("declared", [each for each in KINDS if each.kind != "Scale"], ids=name_of)
def test_a_declaration_speaks_of_what_is_served(declared: Kind) -> None:
    resource = SERVED[declared.group, declared.plural]
    assert resource.kind == declared.kind
    assert set(declared.partial_writes) <= set(resource.subresources)
    assert set(declared.resets) <= {"", *resource.subresources}
    assert declared.kind == "CustomResourceDefinition" or declared.status == (
        "status" in resource.subresources
    )
    versions = {each.version for each in builtin.resources() if each.group == declared.group}
    assert set(declared.views) | set(declared.deprecations) <= versions


def test_a_write_owns_every_field_of_a_kind_without_resets() -> None:
    assert reset("", "configmaps") is NOTHING
    assert reset("example.com", "widgets") is NOTHING
    assert re.fullmatch(r"f:status", next(iter(reset("apps", "deployments").gone)))
