"""Validation of names, labels and keys, with the messages of the API. Pure.

Rules and messages are those of apimachinery's `util/validation` and `api/validation`. Every function returns the
messages about a text; none means that it is well formed. All patterns run in linear time.
"""

from collections.abc import Callable
from functools import cache, wraps
from urllib.parse import quote

from vcsync.objects.text_cache import cache_short_texts
from vcsync.patterns.linear import Pattern, linear

Rule = Callable[[str], list[str]]
NameRule = Callable[[str, bool], list[str]]

MAX_ESCAPED = 4096
"""Most bytes of a name in escaped form. It leaves the same room for the rest of a path (`requestinfo.MAX_PATH`)."""
_MOST_CACHED = 4096
_LONGEST_CACHED = 253
"""Number and length of the valid texts that a rule caches. The cache pays because most objects share a few names."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_UNDERSCORE = rf"{_LABEL_UNDERSCORE}(\.{_LABEL_UNDERSCORE})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_KEY = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE = f"({_KEY})?"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_HEADER = "[-A-Za-z0-9]+"
_PERCENT = "[0-9]+%"
_IDENTIFIER = "[A-Za-z_][A-Za-z0-9_]*"
_HTTP_PATH = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_REASON = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"

_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end"
    " with an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start"
    " and end with an alphanumeric character"
)
_SUBDOMAIN_UNDERSCORE_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must"
    " start and end with an alphanumeric character"
)
_LABEL_1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character"
)
_WILDCARD_WORDS = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of"
    " lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character"
)
_KEY_WORDS = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_VALUE_WORDS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start"
    " and end with an alphanumeric character"
)
_CONFIG_KEY_WORDS = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
_IDENTIFIER_WORDS = (
    "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric"
    " characters or '_'"
)
_REASON_WORDS = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_'"
)
_ENVIRONMENT_WORDS = (
    "a valid environment variable name must consist only of printable ASCII characters other than '='"
)


def mismatch(words: str, pattern: str, *examples: str) -> str:
    """Return the message that a text does not match a pattern."""
    if not examples:
        return f"{words} (regex used for validation is '{pattern}')"
    quoted = " or ".join(f"'{each}', " for each in examples)
    return f"{words} (e.g. {quoted}regex used for validation is '{pattern}')"


@cache
def _compiled(pattern: str) -> Pattern:
    return linear(pattern)


def _matches(pattern: str, text: str) -> bool:
    return _compiled(pattern).fullmatch(text) is not None


def _cached(rule: Rule) -> Rule:
    """Return a rule with the same results that caches short valid texts."""

    @cache_short_texts(_MOST_CACHED, _LONGEST_CACHED)
    def well_formed(text: str) -> bool:
        return not rule(text)

    @wraps(rule)
    def said(text: str) -> list[str]:
        return [] if well_formed(text) else rule(text)

    return said


def size(text: str) -> int:
    """Return a text's length as limits count it: in bytes of UTF-8."""
    return len(text.encode("utf-8", "surrogatepass"))


def longer(text: str, limit: int) -> list[str]:
    """Return the message that a text is longer than `limit` bytes, or none."""
    return [f"must be no more than {limit} bytes"] if size(text) > limit else []


def _longer_characters(text: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} characters"] if size(text) > limit else []


@_cached
def dns_label(text: str) -> list[str]:
    """`my-name`, at most 63 bytes (RFC 1123)."""
    found = _longer_characters(text, 63)
    if not _matches(_LABEL, text):
        if _matches(_SUBDOMAIN, text):
            found.append("must not contain dots")
        else:
            found.append(mismatch(_LABEL_WORDS, _LABEL, "my-name", "123-abc"))
    return found


@_cached
def dns_subdomain(text: str) -> list[str]:
    """`my.name.com`, at most 253 bytes (RFC 1123)."""
    found = _longer_characters(text, 253)
    if not _matches(_SUBDOMAIN, text):
        found.append(mismatch(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"))
    return found


def dns_subdomain_with_underscore(text: str) -> list[str]:
    """Check a DNS subdomain that may contain underscores."""
    found = _longer_characters(text, 253)
    if not _matches(_SUBDOMAIN_UNDERSCORE, text):
        found.append(mismatch(_SUBDOMAIN_UNDERSCORE_WORDS, _SUBDOMAIN_UNDERSCORE, "example.com"))
    return found


def dns_label_1035(text: str) -> list[str]:
    """A DNS label that begins with a letter (RFC 1035)."""
    found = _longer_characters(text, 63)
    if not _matches(_LABEL_1035, text):
        found.append(mismatch(_LABEL_1035_WORDS, _LABEL_1035, "my-name", "abc-123"))
    return found


def wildcard_subdomain(text: str) -> list[str]:
    """`*.my.name.com`."""
    found = _longer_characters(text, 253)
    if not _matches(_WILDCARD, text):
        found.append(mismatch(_WILDCARD_WORDS, _WILDCARD, "*.example.com"))
    return found


@_cached
def qualified_name(text: str) -> list[str]:
    """`name` or `example.com/Name`: keys of labels, conditions' types, finalizers."""
    prefix, slash, name = text.partition("/")
    if "/" in name:
        words = mismatch(_KEY_WORDS, _KEY, "MyName", "my.name", "123-abc")
        return [
            f"a valid label key {words} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found = []
    if not slash:
        name = prefix
    elif not prefix:
        found.append("prefix part must be non-empty")
    else:
        found.extend(f"prefix part {each}" for each in longer(prefix, 253))
        found.extend(
            f"prefix part {each}" for each in dns_subdomain(prefix) if not each.endswith("253 characters")
        )
    if not name:
        found.append("name part must be non-empty")
    else:
        found.extend(f"name part {each}" for each in longer(name, 63))
    if not _matches(_KEY, name):
        found.append(f"name part {mismatch(_KEY_WORDS, _KEY, 'MyName', 'my.name', '123-abc')}")
    return found


@_cached
def label_value(text: str) -> list[str]:
    """A label's value: empty, or at most 63 bytes of letters, digits, `-`, `_` and `.`."""
    found = longer(text, 63)
    if not _matches(_VALUE, text):
        found.append(mismatch(_VALUE_WORDS, _VALUE, "MyValue", "my_value", "12345"))
    return found


def _upward(text: str) -> list[str]:
    if text == ".":
        return ["must not be '.'"]
    if text == "..":
        return ["must not be '..'"]
    if text.startswith(".."):
        return ["must not start with '..'"]
    return []


def config_key(text: str) -> list[str]:
    """Check a key of a ConfigMap or Secret."""
    found = _longer_characters(text, 253)
    if not _matches(_CONFIG_KEY, text):
        found.append(mismatch(_CONFIG_KEY_WORDS, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return found + _upward(text)


def environment_name(text: str) -> list[str]:
    """Check the name of an environment variable: printable ASCII without `=`."""
    found = [] if text else ["environment variable name must be non-empty"]
    if any(not " " <= each <= "~" or each == "=" for each in text):
        found.append(_ENVIRONMENT_WORDS)
    return found


def header_name(text: str) -> list[str]:
    """Check the name of an HTTP header."""
    words = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [] if _matches(_HEADER, text) else [mismatch(words, _HEADER, "X-Header-Name")]


def percent(text: str) -> list[str]:
    """`93%`."""
    words = "a valid percent string must be a numeric string followed by an ending '%'"
    return [] if _matches(_PERCENT, text) else [mismatch(words, _PERCENT, "1%", "93%")]


def identifier(text: str) -> list[str]:
    """Check a C identifier."""
    return (
        []
        if _matches(_IDENTIFIER, text)
        else [mismatch(_IDENTIFIER_WORDS, _IDENTIFIER, "my_name", "MY_NAME", "MyName")]
    )


def condition_reason(text: str) -> list[str]:
    """Check the `reason` of a condition."""
    examples = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
    return [] if _matches(_REASON, text) else [mismatch(_REASON_WORDS, _REASON, *examples)]


def port_name(text: str) -> list[str]:
    """Check an IANA service name: at most 15 bytes with a letter in it."""
    found = _longer_characters(text, 15)
    if not _matches("[-a-z0-9]+", text):
        found.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _matches("(?s).*[a-z].*", text):
        found.append("must contain at least one letter (a-z)")
    if "--" in text:
        found.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        found.append("must not begin or end with a hyphen")
    return found


def http_path(text: str) -> list[str]:
    """Check a path of an HTTP URL."""
    return [] if _matches(_HTTP_PATH, text) else [mismatch("Invalid path", _HTTP_PATH)]


def path_segment(text: str) -> list[str]:
    """Check a path segment: any text except `.` and `..`, without `/` and `%`."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return _segment_content(text)


def _segment_content(text: str) -> list[str]:
    return [f"may not contain '{each}'" for each in ("/", "%") if each in text]


def _named(rule: Rule) -> NameRule:
    def check(name: str, prefix: bool) -> list[str]:
        if prefix and len(name) > 1 and name.endswith("-"):
            name = f"{name[:-2]}a"
        return rule(name)

    return check


subdomain_name: NameRule = _named(dns_subdomain)
"""`metadata.name` of most kinds."""


def path_prefix_name(name: str, prefix: bool) -> list[str]:
    """`metadata.name` of kinds whose `generateName` may be any text that the path of a request can hold."""
    return segment_name(name, prefix) if prefix else subdomain_name(name, prefix)


label_name: NameRule = _named(dns_label)
"""`metadata.name` of namespaces, StatefulSets, Services."""

label_1035_name: NameRule = _named(dns_label_1035)


def segment_name(name: str, prefix: bool) -> list[str]:
    """`metadata.name` of RBAC kinds and others: any text that the path of a request can contain.

    kube-apiserver accepts NUL, and names of any length. Here no path could contain them, so the object could not be deleted.
    """
    found = _segment_content(name) if prefix else path_segment(name)
    if "\0" in name:
        found.append("may not contain NUL")
    if len(name) > MAX_ESCAPED or len(quote(name, safe="", errors="replace")) > MAX_ESCAPED:
        found.append(f"must be no more than {MAX_ESCAPED} bytes as it is escaped in paths")
    return found
