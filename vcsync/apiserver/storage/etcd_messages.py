"""The messages of etcd's gRPC API that the store uses, with the fields that it uses.

Names and numbers are those of etcd's `api/etcdserverpb/rpc.proto` and `api/mvccpb/kv.proto`. Fields that are not listed
are ignored. The descriptors are built at import, so nothing is generated.
"""

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "int64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "bytes": _Field.TYPE_BYTES,
    "string": _Field.TYPE_STRING,
}
_PACKAGE = "vcsync.etcd"
_ENUMS: Mapping[str, Mapping[str, int]] = {
    "CompareResult": {"EQUAL": 0, "GREATER": 1, "LESS": 2, "NOT_EQUAL": 3},
    "CompareTarget": {"VERSION": 0, "CREATE": 1, "MOD": 2, "VALUE": 3, "LEASE": 4},
    "EventType": {"PUT": 0, "DELETE": 1},
}
_MESSAGES: Mapping[str, Mapping[str, tuple[int, str]]] = {
    "Header": {"revision": (3, "int64")},
    "KeyValue": {
        "key": (1, "bytes"),
        "create_revision": (2, "int64"),
        "mod_revision": (3, "int64"),
        "value": (5, "bytes"),
    },
    "RangeRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "limit": (3, "int64"),
        "revision": (4, "int64"),
        "keys_only": (8, "bool"),
        "count_only": (9, "bool"),
    },
    "RangeResponse": {
        "header": (1, "Header"),
        "kvs": (2, "[]KeyValue"),
        "more": (3, "bool"),
        "count": (4, "int64"),
    },
    "PutRequest": {"key": (1, "bytes"), "value": (2, "bytes"), "lease": (3, "int64")},
    "PutResponse": {"header": (1, "Header")},
    "DeleteRangeRequest": {"key": (1, "bytes")},
    "RequestOp": {
        "request_range": (1, "RangeRequest"),
        "request_put": (2, "PutRequest"),
        "request_delete_range": (3, "DeleteRangeRequest"),
        "request_txn": (4, "TxnRequest"),
    },
    "ResponseOp": {"response_range": (1, "RangeResponse")},
    "Compare": {
        "result": (1, "CompareResult"),
        "target": (2, "CompareTarget"),
        "key": (3, "bytes"),
        "mod_revision": (6, "int64"),
        "range_end": (64, "bytes"),
    },
    "TxnRequest": {
        "compare": (1, "[]Compare"),
        "success": (2, "[]RequestOp"),
        "failure": (3, "[]RequestOp"),
    },
    "TxnResponse": {"header": (1, "Header"), "succeeded": (2, "bool"), "responses": (3, "[]ResponseOp")},
    "CompactionRequest": {"revision": (1, "int64")},
    "CompactionResponse": {"header": (1, "Header")},
    "LeaseGrantRequest": {"TTL": (1, "int64")},
    "LeaseGrantResponse": {"header": (1, "Header"), "ID": (2, "int64")},
    "WatchCreateRequest": {
        "key": (1, "bytes"),
        "range_end": (2, "bytes"),
        "start_revision": (3, "int64"),
        "prev_kv": (6, "bool"),
    },
    "WatchRequest": {"create_request": (1, "WatchCreateRequest")},
    "Event": {"type": (1, "EventType"), "kv": (2, "KeyValue"), "prev_kv": (3, "KeyValue")},
    "WatchResponse": {
        "header": (1, "Header"),
        "created": (3, "bool"),
        "canceled": (4, "bool"),
        "compact_revision": (5, "int64"),
        "cancel_reason": (6, "string"),
        "events": (11, "[]Event"),
    },
}
"""Message -> field -> number and type; `[]`: repeated."""


def _described() -> descriptor_pb2.FileDescriptorProto:
    # proto2, because a condition on revision 0 must be sent: in etcd's proto3 it is one of several alternatives.
    file = descriptor_pb2.FileDescriptorProto(name="vcsync/etcd.proto", package=_PACKAGE, syntax="proto2")
    for name, values in _ENUMS.items():
        enum = file.enum_type.add(name=name)
        for label, number in values.items():
            enum.value.add(name=f"{name}_{label}", number=number)
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for label, (number, declared) in fields.items():
            kind = declared.removeprefix("[]")
            field = message.field.add(name=label, number=number)
            field.label = _Field.LABEL_OPTIONAL if kind == declared else _Field.LABEL_REPEATED
            if kind in _SCALARS:
                field.type = _SCALARS[kind]
            else:
                field.type = _Field.TYPE_ENUM if kind in _ENUMS else _Field.TYPE_MESSAGE
                field.type_name = f".{_PACKAGE}.{kind}"
    return file


_pool = descriptor_pool.DescriptorPool()
_pool.Add(_described())


def message(name: str) -> Any:
    """Return the class of a message of `_MESSAGES`."""
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.{name}"))


RangeRequest = message("RangeRequest")
RangeResponse = message("RangeResponse")
PutRequest = message("PutRequest")
PutResponse = message("PutResponse")
TxnRequest = message("TxnRequest")
TxnResponse = message("TxnResponse")
CompactionRequest = message("CompactionRequest")
CompactionResponse = message("CompactionResponse")
LeaseGrantRequest = message("LeaseGrantRequest")
LeaseGrantResponse = message("LeaseGrantResponse")
WatchRequest = message("WatchRequest")
WatchResponse = message("WatchResponse")

EQUAL, LESS = _ENUMS["CompareResult"]["EQUAL"], _ENUMS["CompareResult"]["LESS"]
MOD = _ENUMS["CompareTarget"]["MOD"]
DELETE = _ENUMS["EventType"]["DELETE"]
