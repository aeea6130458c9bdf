"""The cells of Namespaces, Nodes, Events, configuration, access rules and policies. Pure."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from vcsync.controlplane.wire.printers.cells import (
    NONE,
    UNKNOWN,
    UNSET,
    Cell,
    Object,
    Printer,
    age,
    ago,
    condition,
    count,
    field,
    filled,
    lasting,
    look,
    name,
)

Kind = tuple[str, str]
ROLE_PREFIX, ROLE_LABEL = "node-role.kubernetes.io/", "kubernetes.io/role"


def node_status(obj: Object, _: datetime) -> str:
    """Tell whether a Node is ready and takes Pods."""
    conditions = {each.get("type"): each for each in look(obj, "status.conditions", ())}
    found = conditions.get("Ready")
    ready = "Unknown" if found is None else "Ready" if found.get("status") == "True" else "NotReady"
    return f"{ready},SchedulingDisabled" if look(obj, "spec.unschedulable") else ready


def node_roles(obj: Object, _: datetime) -> str:
    """Tell a Node's roles, from its labels."""
    labels = look(obj, "metadata.labels", {})
    roles = {key.removeprefix(ROLE_PREFIX) for key in labels if key.startswith(ROLE_PREFIX)}
    roles.add(labels.get(ROLE_LABEL, ""))
    return ",".join(sorted(roles - {""})) or NONE


def node_address(kind: str) -> Cell:
    """Make a cell of a Node's first address of a type."""

    def cell(obj: Object, _: datetime) -> Any:
        addresses = look(obj, "status.addresses", ())
        return next((each.get("address", "") for each in addresses if each.get("type") == kind), NONE)

    return cell


def kernel(obj: Object, _: datetime) -> str:
    """Tell a Node's kernel and architecture."""
    architecture = look(obj, "status.nodeInfo.architecture")
    version = look(obj, "status.nodeInfo.kernelVersion") or UNKNOWN
    return f"{version} ({architecture})" if architecture else str(version)


def first_seen(obj: Object, now: datetime) -> str:
    """Tell when an Event was first seen."""
    return ago(look(obj, "firstTimestamp") or look(obj, "eventTime"), now)


def last_seen(obj: Object, now: datetime) -> str:
    """Tell when an Event was last seen."""
    if look(obj, "series") is not None:
        return ago(look(obj, "series.lastObservedTime"), now)
    last = look(obj, "lastTimestamp")
    return ago(last, now) if last else first_seen(obj, now)


def event_object(obj: Object, _: datetime) -> str:
    """Name what an Event is about."""
    kind, about = look(obj, "involvedObject.kind", "").lower(), look(obj, "involvedObject.name", "")
    return f"{kind}/{about}" if about else kind


def event_source(obj: Object, _: datetime) -> str:
    """Name who reported an Event."""
    component = look(obj, "source.component") or look(obj, "reportingComponent", "")
    instance = look(obj, "source.host") or look(obj, "reportingInstance", "")
    return f"{component}, {instance}" if instance else component


def event_count(obj: Object, _: datetime) -> Any:
    """Count an Event's repetitions."""
    return look(obj, "series.count", 0) if look(obj, "series") is not None else look(obj, "count") or 1


def message(obj: Object, _: datetime) -> str:
    """Return an Event's text."""
    return look(obj, "message", "").strip()  # type: ignore[no-any-return]


def quota(limits: bool) -> Cell:
    """Make a cell of a quota's limits or of everything else it bounds."""

    def cell(obj: Object, _: datetime) -> str:
        used = look(obj, "status.used", {})
        hard = sorted(look(obj, "status.hard", {}).items())
        return ", ".join(
            f"{key}: {used.get(key, '0')}/{value}"
            for key, value in hard
            if key.startswith("limits.") == limits
        )

    return cell


def healthy(obj: Object, _: datetime) -> str:
    """Tell whether a component is healthy."""
    found = next((each for each in look(obj, "conditions", ()) if each.get("type") == "Healthy"), None)
    if found is None:
        return "Unknown"
    return "Healthy" if found.get("status") == "True" else "Unhealthy"


def component(key: str) -> Cell:
    """Make a cell of a member of a component's condition."""

    def cell(obj: Object, _: datetime) -> Any:
        found = [each for each in look(obj, "conditions", ()) if each.get("type") == "Healthy"]
        return found[0].get(key, "") if found else ""

    return cell


def role(obj: Object, _: datetime) -> str:
    """Name the role that a binding grants."""
    return f"{look(obj, 'roleRef.kind', '')}/{look(obj, 'roleRef.name', '')}"


def subjects(kind: str) -> Cell:
    """Make a cell of a binding's subjects of one kind."""

    def cell(obj: Object, _: datetime) -> str:
        found = [each for each in look(obj, "subjects", ()) if each.get("kind") == kind]
        return ", ".join(_subject(each) for each in found)

    return cell


def _subject(subject: Object) -> str:
    if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
        return f"{subject['namespace']}/{subject.get('name', '')}"
    return str(subject.get("name", ""))


def request_state(obj: Object, _: datetime) -> str:
    """Tell where a certificate signing request stands."""
    found = {each.get("type") for each in look(obj, "status.conditions", ())}
    state = next((each for each in ("Denied", "Approved") if each in found), "Pending")
    failed = ",Failed" if "Failed" in found else ""
    return state + failed + (",Issued" if look(obj, "status.certificate") else "")


def requested_duration(obj: Object, _: datetime) -> str:
    """Tell for how long a certificate is wanted."""
    seconds = look(obj, "spec.expirationSeconds")
    return NONE if seconds is None else lasting(timedelta(seconds=seconds))


def bound(path: str) -> Cell:
    """Make a cell of a disruption budget's bound."""
    return lambda obj, _: str(look(obj, path, "N/A"))


def parameter_kind(obj: Object, _: datetime) -> str:
    """Name the kind of an admission policy's parameters."""
    found = look(obj, "spec.paramKind")
    return UNSET if found is None else f"{found.get('apiVersion', '')}/{found.get('kind', '')}"


def parameter(obj: Object, _: datetime) -> str:
    """Name the parameters that a binding gives an admission policy."""
    found = look(obj, "spec.paramRef", {})
    if found.get("name"):
        return f"{found.get('namespace') or '*'}/{found['name']}"
    return _go_selector(found["selector"]) if found.get("selector") is not None else UNSET


def _go_selector(selector: Object) -> str:
    """Write a selector as Go writes the struct, which is what the real server shows."""
    labels = "".join(f"{key}: {value}," for key, value in sorted(look(selector, "matchLabels", {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each.get('key', '')},Operator:{each.get('operator', '')},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in look(selector, "matchExpressions", ())
    )
    told = (
        f"MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{rules}}},"
    )
    return f"&LabelSelector{{{told}}}"


def dangling(obj: Object, _: datetime) -> Any:
    """Tell whether a flow schema's priority level is missing."""
    return (condition(obj, "Dangling") or {"status": "?"}).get("status", "")


def precedence(obj: Object) -> tuple[int, str]:
    """Order flow schemas as they match."""
    return look(obj, "spec.matchingPrecedence", 0), look(obj, "metadata.name", "")


def served_by(obj: Object, _: datetime) -> str:
    """Name the Service behind an APIService."""
    found = look(obj, "spec.service")
    return "Local" if found is None else f"{found.get('namespace', '')}/{found.get('name', '')}"


def available(obj: Object, _: datetime) -> str:
    """Tell whether an APIService answers, else why not."""
    found = condition(obj, "Available")
    if found is None:
        return "Unknown"
    status = found.get("status", "")
    return str(status) if status == "True" else f"{status} ({found.get('reason', '')})"


def claim_state(obj: Object, _: datetime) -> str:
    """Tell where a claim of devices stands."""
    deleted = look(obj, "metadata.deletionTimestamp") is not None
    states = ["deleted"] if deleted else []
    if look(obj, "status.allocation") is None:
        states += [] if deleted else ["pending"]
    else:
        states += ["allocated", *(["reserved"] if look(obj, "status.reservedFor") else [])]
    return ",".join(states)


def _aged(**cells: Cell) -> Printer:
    return {"Name": name, **cells, "Age": age}


def _counted(column: str, path: str) -> Printer:
    return {"Name": name, column: count(path), "Age": age}


_EVENT: Printer = {
    "Last Seen": last_seen,
    "Type": field("type"),
    "Reason": field("reason"),
    "Object": event_object,
    "Subobject": field("involvedObject.fieldPath"),
    "Source": event_source,
    "Message": message,
    "First Seen": first_seen,
    "Count": event_count,
    "Name": name,
}
_BINDING: Printer = {
    "Name": name,
    "Role": role,
    "Age": age,
    "Users": subjects("User"),
    "Groups": subjects("Group"),
    "ServiceAccounts": subjects("ServiceAccount"),
}
_POLICY_BINDING = _aged(PolicyName=field("spec.policyName"), ParamRef=parameter)
_LIMITED = "spec.limited.limitResponse.queuing"
_ADMISSION, _RBAC, _FLOW = (
    "admissionregistration.k8s.io",
    "rbac.authorization.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_RESOURCE = "resource.k8s.io"

PRINTERS: Mapping[Kind, Printer] = {
    ("", "Namespace"): _aged(Status=field("status.phase")),
    ("", "Node"): {
        "Name": name,
        "Status": node_status,
        "Roles": node_roles,
        "Age": age,
        "Version": field("status.nodeInfo.kubeletVersion"),
        "Internal-IP": node_address("InternalIP"),
        "External-IP": node_address("ExternalIP"),
        "OS-Image": filled("status.nodeInfo.osImage", UNKNOWN),
        "Kernel-Version": kernel,
        "Container-Runtime": filled("status.nodeInfo.containerRuntimeVersion", UNKNOWN),
    },
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    ("", "ConfigMap"): {"Name": name, "Data": count("data", "binaryData"), "Age": age},
    ("", "Secret"): {"Name": name, "Type": field("type"), "Data": count("data"), "Age": age},
    ("", "ServiceAccount"): _aged(),
    ("", "ResourceQuota"): _aged(Request=quota(limits=False), Limit=quota(limits=True)),
    ("", "ComponentStatus"): {
        "Name": name,
        "Status": healthy,
        "Message": component("message"),
        "Error": component("error"),
    },
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("certificates.k8s.io", "CertificateSigningRequest"): {
        "Name": name,
        "Age": age,
        "SignerName": filled("spec.signerName", NONE),
        "Requestor": field("spec.username"),
        "RequestedDuration": requested_duration,
        "Condition": request_state,
    },
    ("policy", "PodDisruptionBudget"): {
        "Name": name,
        "Min Available": bound("spec.minAvailable"),
        "Max Unavailable": bound("spec.maxUnavailable"),
        "Allowed Disruptions": field("status.disruptionsAllowed", 0),
        "Age": age,
    },
    (_ADMISSION, "MutatingWebhookConfiguration"): _counted("Webhooks", "webhooks"),
    (_ADMISSION, "ValidatingWebhookConfiguration"): _counted("Webhooks", "webhooks"),
    (_ADMISSION, "MutatingAdmissionPolicy"): _aged(
        Mutations=count("spec.mutations"), ParamKind=parameter_kind
    ),
    (_ADMISSION, "ValidatingAdmissionPolicy"): _aged(
        Validations=count("spec.validations"), ParamKind=parameter_kind
    ),
    (_ADMISSION, "MutatingAdmissionPolicyBinding"): _POLICY_BINDING,
    (_ADMISSION, "ValidatingAdmissionPolicyBinding"): _POLICY_BINDING,
    ("scheduling.k8s.io", "PriorityClass"): {
        "Name": name,
        "Value": field("value", 0),
        "Global-Default": field("globalDefault", False),
        "Age": age,
        "PreemptionPolicy": field("preemptionPolicy"),
    },
    ("coordination.k8s.io", "Lease"): _aged(Holder=field("spec.holderIdentity")),
    ("node.k8s.io", "RuntimeClass"): _aged(Handler=field("handler")),
    ("apiregistration.k8s.io", "APIService"): _aged(Service=served_by, Available=available),
    (_FLOW, "FlowSchema"): {
        "Name": name,
        "PriorityLevel": field("spec.priorityLevelConfiguration.name"),
        "MatchingPrecedence": field("spec.matchingPrecedence", 0),
        "DistinguisherMethod": field("spec.distinguisherMethod.type", NONE),
        "Age": age,
        "MissingPL": dangling,
    },
    (_FLOW, "PriorityLevelConfiguration"): {
        "Name": name,
        "Type": field("spec.type"),
        "NominalConcurrencyShares": field("spec.limited.nominalConcurrencyShares", NONE),
        "Queues": field(f"{_LIMITED}.queues", NONE),
        "HandSize": field(f"{_LIMITED}.handSize", NONE),
        "QueueLengthLimit": field(f"{_LIMITED}.queueLengthLimit", NONE),
        "Age": age,
    },
    (_RESOURCE, "DeviceClass"): _aged(),
    (_RESOURCE, "ResourceClaim"): _aged(State=claim_state),
    (_RESOURCE, "ResourceClaimTemplate"): _aged(),
    (_RESOURCE, "ResourceSlice"): _aged(
        Node=field("spec.nodeName"), Driver=field("spec.driver"), Pool=field("spec.pool.name")
    ),
}
