"""The uses of Python's `re` in vcsync, with their reasons. Patterns that tenants' texts cannot reach are not measured."""

from vcsync.api.fields import PERCENT_OR_QUANTITY_PATTERN, POSITIVE_QUANTITY_PATTERN, QUANTITY_PATTERN
from vcsync.apimachinery.cel.go_words import _WORDS
from vcsync.syncer.kinds.event import _key_prefix, _whole_word

_MESSAGE = (
    "messages of the CEL library about an expression, whose length is limited; looks ahead, refers to groups"
)
_HOT = "called for each quantity or time of an object"
_POSITIONS = "matches at positions of a text, without a copy of it"
_BYTES = "matches at positions in the bytes of a body"

OF_TENANTS = {
    "apimachinery/cel/formatting.py _CLAUSE": _POSITIONS,
    "apimachinery/cel/go_words.py _HEAD": _MESSAGE,
    "apimachinery/cel/go_words.py _TWICE": _MESSAGE,
    "apimachinery/cel/go_words.py _UNDECLARED": _MESSAGE,
    "apimachinery/cel/go_words.py _placed": _MESSAGE,
    "apimachinery/cel/go_words.py _problem": _MESSAGE,
    "apimachinery/cel/go_words.py in_go_words": _MESSAGE,
    "apimachinery/cel/go_words.py shown": _MESSAGE,
    "apimachinery/cel/making.py _TYPE": _POSITIONS,
    "apimachinery/cel/spelling.py _TOKEN": _POSITIONS,
    "apimachinery/schema/scalars.py _DIGIT": _HOT,
    "apimachinery/schema/scalars.py _EXPONENT": _HOT,
    "apimachinery/schema/scalars.py _FINE": _HOT,
    "apimachinery/schema/scalars.py _MICROS": _HOT,
    "apimachinery/schema/scalars.py _QUANTITY": _HOT,
    "apimachinery/schema/scalars.py _STEPS": _POSITIONS,
    "apimachinery/schema/scalars.py why_no_time": _POSITIONS,
    "apimachinery/schema/scalars.py _SUFFIX_SHAPE": _HOT,
    "apimachinery/schema/scalars.py _TIME": _HOT,
    "apimachinery/schema/scalars.py _ZONE": _HOT,
    "apimachinery/selectors/label_selectors.py _INTEGER": "called for each label that a watch or list compares",
    "apimachinery/selectors/label_selectors.py _WORD": "one match for each word of a long selector",
    "apimachinery/wire/gojson.py _NUMBER": _BYTES,
    "apimachinery/wire/gojson.py _SPACE": _BYTES,
    "apimachinery/wire/gojson.py _SPACED_KEY": _BYTES,
    "apimachinery/wire/gojson.py _STRING": _BYTES,
    "apimachinery/wire/gojson.py _too_deep": _BYTES,
    "apimachinery/wire/goyaml.py _FLOAT": "called for each scalar of a YAML body",
    "apimachinery/wire/goyaml.py _INTEGER": "called for each scalar of a YAML body",
    "apimachinery/wire/goyaml.py _TIME": "called for each scalar of a YAML body",
    "apimachinery/wire/jsonpath.py _COMPARISON": "beside patterns that match at positions",
    "apimachinery/wire/jsonpath.py _ESCAPED": "refers to groups",
    "apimachinery/wire/jsonpath.py _PART": _POSITIONS,
    "apimachinery/wire/jsonpath.py _RANGE": "beside patterns that match at positions",
    "apimachinery/wire/jsonpath.py _STEP": _POSITIONS,
    "apimachinery/wire/values.py DURATION": _POSITIONS,
    "apimachinery/wire/values.py MICROSECONDS": _HOT,
    "apimachinery/wire/values.py NUMBER_AND_UNIT": "beside DURATION",
    "apimachinery/wire/values.py PLAIN_TIME": _HOT,
    "apimachinery/wire/values.py QUANTITY": _HOT,
    "apimachinery/wire/values.py RFC3339": _HOT,
    "apimachinery/wire/values.py SUFFIX": _HOT,
    "api/fields.py Quantity.parse": "quantities of 64 characters at most; its patterns are those of the published schemas",
    "objects/quantity.py _QUANTITY": _HOT,
    "process/logs.py _SECRET_KEY": "each field of each line of the log",
    "process/logs.py _HARMLESS_KEY": "each field of each line of the log",
    "simulate/canned.py _SEPARATORS": "looks behind and ahead",
    "simulate/kubelet.py _FAILS": "looks ahead",
    "syncer/kinds/event.py _key_prefix": "looks behind and ahead",
    "syncer/kinds/event.py _whole_word": "looks behind and ahead",
}
"""Place -> why it is not compiled by `vcsync.patterns`. All of them are measured."""

OF_OPERATORS = {
    "apimachinery/wire/types.py _TYPE": "names of types in vcsync's own data",
    "apiserver/audit/files.py _BACKUP": "names of files in a folder of the operator",
    "apiserver/operator/defaults.py _MARKS": "vcsync's own objects",
    "cli/command/common.py parse_endpoint": "an option",
    "cli/command/durations.py _DURATION": "an option",
    "cli/controlplane/limit_options.py parse_bytes": "an option",
    "cli/controlplane/limit_options.py parse_limits": "an option",
    "cli/run/commands.py parse_shard": "an option",
    "cli/run/kubelet_api_options.py _PORTS": "an option",
    "cli/tenant/service_cidr.py manifest": "an option",
    "cli/usage/pods.py _KEY": "keys of Pods, of 253 characters at most, in a command of the operator",
    "process/lifetime.py _IDENTITY": "names of vcsync's own files",
    "registration/name_server_domain.py _DOMAIN": "the configuration of the name server of a super cluster",
}
"""Place -> which text it sees, none of which a tenant writes to a server."""

MADE_OF_VARIABLES = {
    "api/fields.py Quantity.parse": [
        QUANTITY_PATTERN,
        POSITIVE_QUANTITY_PATTERN,
        PERCENT_OR_QUANTITY_PATTERN,
    ],
    "apimachinery/cel/go_words.py _problem": [theirs for theirs, _ in _WORDS],
    "syncer/kinds/event.py _key_prefix": [_key_prefix("abc").pattern],
    "syncer/kinds/event.py _whole_word": [_whole_word("abc").pattern],
}
"""Place -> patterns of a use whose argument is made of local variables."""
