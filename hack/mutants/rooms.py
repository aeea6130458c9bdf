"""The rooms whose tests are judged: which modules get faults and which tests must notice them. Data only."""

from dataclasses import dataclass

PLANE = "vcsync/controlplane"
PLANE_TESTS = "tests/unit/controlplane"


@dataclass(frozen=True)
class Room:
    """A part of the code together with the unit tests that answer for it.

    Attributes:
        modules: glob patterns of source files, relative to the checkout; `*` matches slashes too.
        tests: folders and files for pytest.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]


def _modules(folder: str, names: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{name}.py" for name in names.split())


ROOMS = {
    "kube": Room(("vcsync/kube/*",), ("tests/unit/kube",)),
    "fairqueue": Room(("vcsync/fairqueue/*",), ("tests/unit/fairqueue",)),
    "tenancy": Room(("vcsync/tenancy/*",), ("tests/unit/tenancy",)),
    "scheduling": Room(
        ("vcsync/scheduling/*", "vcsync/quota/*"),
        (
            "tests/unit/scheduling",
            f"{PLANE_TESTS}/admission/test_admission_devices.py",
            f"{PLANE_TESTS}/admission/test_admission_usage.py",
        ),
    ),
    "nsscheduler": Room(("vcsync/nsscheduler/*",), ("tests/unit/nsscheduler",)),
    "podscheduler": Room(("vcsync/podscheduler/*",), ("tests/unit/podscheduler",)),
    "syncer": Room(("vcsync/syncer/*",), ("tests/unit/syncer",)),
    "authentication": Room(
        _modules(
            f"{PLANE}/identity",
            "authentication bootstrap_tokens bound caller certificates guarded impersonation jwt_config jwt_expressions"
            " jwt_keys jwt_mapping jwt_tokens outside remembered revocations service token_file token_requests"
            " tokens watched_file webhook_tokens",
        ),
        (f"{PLANE_TESTS}/identity",),
    ),
    "authorization": Room(
        _modules(
            f"{PLANE}/identity",
            "authorizer bootstrap calls escalation node_graph nodes policy policy_reader rbac review_rules"
            " review_selectors reviews",
        ),
        (f"{PLANE_TESTS}/identity",),
    ),
    "admission": Room((f"{PLANE}/admission/*",), (f"{PLANE_TESTS}/admission",)),
    "registry": Room(
        _modules(
            f"{PLANE}/rest",
            "admitting attempts binding claims copies counting deletion eviction fitting patching registry"
            " rescaling scaling scope stored subresources subwrites tracking verbs",
        ),
        (f"{PLANE_TESTS}/rest", f"{PLANE_TESTS}/kinds"),
    ),
    "store": Room((f"{PLANE}/store/*",), (f"{PLANE_TESTS}/store",)),
}
