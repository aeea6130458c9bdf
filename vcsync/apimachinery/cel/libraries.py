"""The declarations of CEL functions for the type checker. Data.

The environment is that of kube-apiserver 1.36 (`pkg/cel/environment/base.go`): standard functions with comparisons
between numbers of different types, optionals, strings (version 2), sets, lists (version 3), two-variable
comprehensions, and Kubernetes' own. A standard function with additional overloads is declared with all of them.
"""

STANDARD = {
    "stdlib": {"exclude_functions": [{"name": each} for each in ("string", "_<_", "_<=_", "_>_", "_>=_")]},
    "extensions": [{"name": each} for each in ("two-var-comprehensions", "lists", "sets", "optional")],
}
"""The libraries of cel-cpp itself, as its environment configuration names them."""

OPAQUE = {
    "Q": "kubernetes.Quantity",
    "U": "kubernetes.URL",
    "P": "net.IP",
    "C": "net.CIDR",
    "V": "kubernetes.Semver",
    "F": "kubernetes.NamedFormat",
    "Z": "kubernetes.authorization.Authorizer",
    "H": "kubernetes.authorization.PathCheck",
    "G": "kubernetes.authorization.GroupCheck",
    "R": "kubernetes.authorization.ResourceCheck",
    "D": "kubernetes.authorization.Decision",
}

_ORDERED = (
    ("bool", "b", "b"), ("int64", "i", "i"), ("uint64", "u", "u"), ("double", "d", "d"), ("string", "s", "s"),
    ("bytes", "y", "y"), ("timestamp", "t", "t"), ("duration", "r", "r"), ("int64_double", "i", "d"),
    ("int64_uint64", "i", "u"), ("uint64_double", "u", "d"), ("uint64_int64", "u", "i"), ("double_int64", "d", "i"),
    ("double_uint64", "d", "u"),
)  # fmt: skip
_COMPARABLE = (("int", "i"), ("uint", "u"), ("double", "d"), ("bool", "b"), ("duration", "r"), ("timestamp", "t"),
               ("string", "s"), ("bytes", "y"))  # fmt: skip
_SUMMABLE = (("int", "i"), ("uint", "u"), ("double", "d"), ("duration", "r"))
_FORMATS = (
    "dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix",
    "dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime",
)  # fmt: skip

MEMBERS: tuple[tuple[str, str, str, str], ...] = (
    ("charAt", "string_char_at_int", "s", "s i"),
    ("indexOf", "string_index_of_string", "i", "s s"),
    ("indexOf", "string_index_of_string_int", "i", "s s i"),
    ("indexOf", "list_a_index_of_int", "i", "[A A"),
    ("lastIndexOf", "string_last_index_of_string", "i", "s s"),
    ("lastIndexOf", "string_last_index_of_string_int", "i", "s s i"),
    ("lastIndexOf", "list_a_last_index_of_int", "i", "[A A"),
    ("lowerAscii", "string_lower_ascii", "s", "s"),
    ("upperAscii", "string_upper_ascii", "s", "s"),
    ("replace", "string_replace_string_string", "s", "s s s"),
    ("replace", "string_replace_string_string_int", "s", "s s s i"),
    ("split", "string_split_string", "[s", "s s"),
    ("split", "string_split_string_int", "[s", "s s i"),
    ("substring", "string_substring_int", "s", "s i"),
    ("substring", "string_substring_int_int", "s", "s i i"),
    ("trim", "string_trim", "s", "s"),
    ("format", "string_format", "s", "s [n"),
    ("join", "list_join", "s", "[s"),
    ("join", "list_join_string", "s", "[s s"),
    *(("isSorted", f"list_{name}_is_sorted_bool", "b", f"[{code}") for name, code in _COMPARABLE),
    *(("min", f"list_{name}_min_{name}", code, f"[{code}") for name, code in _COMPARABLE),
    *(("max", f"list_{name}_max_{name}", code, f"[{code}") for name, code in _COMPARABLE),
    *(("sum", f"list_{name}_sum_{name}", code, f"[{code}") for name, code in _SUMMABLE),
    ("find", "string_find_string", "s", "s s"),
    ("findAll", "string_find_all_string", "[s", "s s"),
    ("findAll", "string_find_all_string_int", "[s", "s s i"),
    ("getScheme", "url_get_scheme", "s", "U"),
    ("getHost", "url_get_host", "s", "U"),
    ("getHostname", "url_get_hostname", "s", "U"),
    ("getPort", "url_get_port", "s", "U"),
    ("getEscapedPath", "url_get_escaped_path", "s", "U"),
    ("getQuery", "url_get_query", "{[s", "U"),
    ("family", "ip_family", "i", "P"),
    ("isUnspecified", "ip_is_unspecified", "b", "P"),
    ("isLoopback", "ip_is_loopback", "b", "P"),
    ("isLinkLocalMulticast", "ip_is_link_local_multicast", "b", "P"),
    ("isLinkLocalUnicast", "ip_is_link_local_unicast", "b", "P"),
    ("isGlobalUnicast", "ip_is_global_unicast", "b", "P"),
    ("containsIP", "cidr_contains_ip_string", "b", "C s"),
    ("containsIP", "cidr_contains_ip_ip", "b", "C P"),
    ("containsCIDR", "cidr_contains_cidr_string", "b", "C s"),
    ("containsCIDR", "cidr_contains_cidr", "b", "C C"),
    ("ip", "cidr_ip", "P", "C"),
    ("prefixLength", "cidr_prefix_length", "i", "C"),
    ("masked", "cidr_masked", "C", "C"),
    ("isGreaterThan", "quantity_is_greater_than", "b", "Q Q"),
    ("isGreaterThan", "semver_is_greater_than", "b", "V V"),
    ("isLessThan", "quantity_is_less_than", "b", "Q Q"),
    ("isLessThan", "semver_is_less_than", "b", "V V"),
    ("compareTo", "quantity_compare_to", "i", "Q Q"),
    ("compareTo", "semver_compare_to", "i", "V V"),
    ("asApproximateFloat", "quantity_get_float", "d", "Q"),
    ("asInteger", "quantity_get_int", "i", "Q"),
    ("isInteger", "quantity_is_integer", "b", "Q"),
    ("add", "quantity_add", "Q", "Q Q"),
    ("add", "quantity_add_int", "Q", "Q i"),
    ("sub", "quantity_sub", "Q", "Q Q"),
    ("sub", "quantity_sub_int", "Q", "Q i"),
    ("major", "semver_major", "i", "V"),
    ("minor", "semver_minor", "i", "V"),
    ("patch", "semver_patch", "i", "V"),
    ("validate", "format-validate", "?[s", "F s"),
    ("path", "authorizer_path", "H", "Z s"),
    ("group", "authorizer_group", "G", "Z s"),
    ("serviceAccount", "authorizer_serviceaccount", "Z", "Z s s"),
    ("resource", "groupcheck_resource", "R", "G s"),
    ("subresource", "resourcecheck_subresource", "R", "R s"),
    ("namespace", "resourcecheck_namespace", "R", "R s"),
    ("name", "resourcecheck_name", "R", "R s"),
    ("fieldSelector", "authorizer_fieldselector", "R", "R s"),
    ("labelSelector", "authorizer_labelselector", "R", "R s"),
    ("check", "pathcheck_check", "D", "H s"),
    ("check", "resourcecheck_check", "D", "R s"),
    ("errored", "decision_errored", "b", "D"),
    ("error", "decision_error", "s", "D"),
    ("allowed", "decision_allowed", "b", "D"),
    ("reason", "decision_reason", "s", "D"),
)
"""Member functions: (name, overload, result, arguments). Types: `s` string, `i` int, `u` uint, `d` double,
`b` bool, `y` bytes, `t` timestamp, `r` duration, `n` dyn, `A` type parameter, `[` list of, `{` map from string to, `?`
optional of, capitals as in `OPAQUE`.
"""

GLOBALS: tuple[tuple[str, str, str, str], ...] = (
    ("strings.quote", "strings_quote", "s", "s"),
    *(("string", f"{name}_to_string", "s", code) for name, code in (
        ("string", "s"), ("bool", "b"), ("int64", "i"), ("uint64", "u"), ("double", "d"), ("bytes", "y"),
        ("timestamp", "t"), ("duration", "r"), ("ip", "P"), ("cidr", "C"),
    )),
    *((f"_{sign}_", f"{word}_{name}", "b", f"{left} {right}")
      for sign, word in (("<", "less"), ("<=", "less_equals"), (">", "greater"), (">=", "greater_equals"))
      for name, left, right in _ORDERED),
    ("url", "string_to_url", "U", "s"),
    ("isURL", "is_url_string", "b", "s"),
    ("ip", "string_to_ip", "P", "s"),
    ("isIP", "is_ip", "b", "s"),
    ("ip.isCanonical", "ip_is_canonical", "b", "s"),
    ("cidr", "string_to_cidr", "C", "s"),
    ("isCIDR", "is_cidr", "b", "s"),
    ("quantity", "string_to_quantity", "Q", "s"),
    ("isQuantity", "is_quantity_string", "b", "s"),
    ("sign", "quantity_sign", "i", "Q"),
    ("semver", "string_to_semver", "V", "s"),
    ("semver", "string_bool_to_semver", "V", "s b"),
    ("isSemver", "is_semver_string", "b", "s"),
    ("isSemver", "is_semver_string_bool", "b", "s b"),
    ("format.named", "format-named", "?F", "s"),
    *((f"format.{name}", f"format-{name}", "F", "") for name in _FORMATS),
)  # fmt: skip
"""Global functions."""

PATCHES = (("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "s", "s"),)
"""Functions for JSON patches."""
