"""The rooms whose tests are judged: the modules that get faults, and the tests that must detect them. Data only."""

from dataclasses import dataclass

PLANE = "vcsync/apiserver"
PLANE_TESTS = "tests/unit/apiserver"

# mutmut's dispatcher of a function's mutants keeps the arguments alive longer than the function does.
DESELECTED = (
    f"{PLANE_TESTS}/requests/test_apiserver_inside.py::test_calls_leave_no_reference_cycles",
    f"{PLANE_TESTS}/requests/test_apiserver_server.py::test_a_request_leaves_no_reference_cycles",
)


@dataclass(frozen=True)
class Room:
    """A part of the code and its unit tests.

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
            f"{PLANE_TESTS}/admission/test_admission_tenant_charge.py",
            f"{PLANE_TESTS}/admission/test_admission_usage.py",
        ),
    ),
    "published": Room(("vcsync/published/*",), ("tests/unit/published",)),
    "nsscheduler": Room(("vcsync/nsscheduler/*",), ("tests/unit/nsscheduler",)),
    "archive": Room(("vcsync/archive/*",), ("tests/unit/archive",)),
    "podscheduler": Room(("vcsync/podscheduler/*",), ("tests/unit/podscheduler",)),
    "syncer": Room(("vcsync/syncer/*",), ("tests/unit/syncer",)),
    "requestlimits": Room(
        (f"{PLANE}/requestlimits/*", f"{PLANE}/tenants/request_limits.py"), (f"{PLANE_TESTS}/requestlimits",)
    ),
    "grants": Room(
        (f"{PLANE}/grants/*", f"{PLANE}/assembly/grant_offers.py"),
        (f"{PLANE_TESTS}/grants",),
    ),
    "metering": Room((f"{PLANE}/metering/*",), (f"{PLANE_TESTS}/metering",)),
    "authentication": Room(
        (
            f"{PLANE}/authentication/*",
            f"{PLANE}/request/caller.py",
            f"{PLANE}/authorization/protected_groups.py",
        ),
        (f"{PLANE_TESTS}/identity",),
    ),
    "authorization": Room(
        (
            *_modules(
                f"{PLANE}/authorization",
                "authorizer bootstrap escalation guests impersonation limits node_graph nodes policy policy_reader rbac "
                "rule_index syncers",
            ),
            f"{PLANE}/reviews/*",
        ),
        (
            f"{PLANE_TESTS}/identity",
            f"{PLANE_TESTS}/grants/test_grants_guests.py",
            f"{PLANE_TESTS}/requests/test_apiserver_bound_status.py",
        ),
    ),
    "admission": Room((f"{PLANE}/admission/*",), (f"{PLANE_TESTS}/admission",)),
    "registry": Room(
        (f"{PLANE}/registry/*",),
        (f"{PLANE_TESTS}/requests", "tests/unit/apimachinery/kinds"),
    ),
    "storage": Room((f"{PLANE}/storage/*",), (f"{PLANE_TESTS}/storage",)),
}
