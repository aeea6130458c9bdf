"""Functions of expressions have kube-apiserver's values, and its errors. The expected texts are kube-apiserver 1.36's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcsync.apimachinery.cel.rules import compile_rules, estimate
from vcsync.apimachinery.structural.schema import build


def value(expression):
    """Return the text of an expression's value, or of its error."""
    rule = {"rule": f"({expression}) == '?'", "messageExpression": expression, "message": "no value"}
    [found] = compile_rules(build({"type": "object", "x-kubernetes-validations": [rule]})).validate(
        "", {}, None, None
    )
    told = str(found).removeprefix('<nil>: Invalid value: "object": ').removeprefix("<nil>: Invalid value: ")
    return told.removesuffix(" evaluating rule: no value")


def holds(expression):
    rules = [{"rule": expression}]
    return not compile_rules(build({"type": "object", "x-kubernetes-validations": rules})).validate(
        "", {}, None, None
    )


def test_the_place_of_an_error_is_shown_below_its_line():
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    rule = {"rule": "\t'ä' == 'b' &&\n\t'é' + foo == [1, 'a']", "message": "two lines"}
    [found] = estimate(build({**schema, "x-kubernetes-validations": [rule]}), True)
    assert found.error.split("\n")[1:3] == [" |  'é' + foo == [1, 'a']", " | ..\uff0e....^"]
    rule["rule"] = "\t'ä' == 'b' || [1, 'a'].size() == 2"
    [found] = estimate(build({**schema, "x-kubernetes-validations": [rule]}), True)
    assert found.error.split("\n")[1:] == [
        " |  'ä' == 'b' || [1, 'a'].size() == 2",
        " | ..\uff0e................^",
    ]


def refusal(expression):
    """Return the compiler's messages about an expression, without the lines that show their places."""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    [found] = estimate(build({**schema, "x-kubernetes-validations": [{"rule": expression}]}), True)
    return [line for line in found.error.split("\n") if not line.startswith(" | ")]


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://a.b:99999/", "https|a.b:99999|a.b|99999|/|{}"),
        ("http://h?x=1&y=%zz", 'http|h|h|||{"x":["1"]}'),
        ("http://h/p?a=%41+b&%zz=1&;c&=e&&f==g", 'http|h|h||/p|{"":["e"], "a":["A b"], "f":["=g"]}'),
        ("*", "||||*|{}"),
        ("//h/p", "|h|h||/p|{}"),
        ("http://h/a b#c%20d", "http|h|h||/a%20b|{}"),
        ("http://[::1%25e%20n%41]/", "http|[::1%e nA]|::1%e nA||/|{}"),
        ("ftp://a:b:1/", "ftp|a:b:1|a:b|1|/|{}"),
        ("mailto:a%zz", "mailto|||||{}"),
        ("HTTP://u:%41@H:/", "http|H:|H||/|{}"),
        ("http://h/[a]%5bb", "http|h|h||/[a]%5bb|{}"),
    ],
)
def test_urls_have_the_parts_that_go_finds(url, parts):
    getters = ", ".join(
        f"url('{url}').get{part}()" for part in ("Scheme", "Host", "Hostname", "Port", "EscapedPath", "Query")
    )
    assert value(f"'%s|%s|%s|%s|%s|%s'.format([{getters}])") == parts
    assert holds(f"isURL('{url}')")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("https://a.b:8200#f", 'invalid port ":8200#f" after host'),
        ("https://a.b#f", 'invalid character "#" in host name'),
        ("http://h%41/", 'invalid URL escape "%41"'),
        ("http://[v1.x]/", 'invalid host: ParseAddr("v1.x"): unexpected character (at "v1.x")'),
        ("http://[1.2.3.4]/", "invalid IP-literal"),
        ("http://a[::1]/", "invalid IP-literal"),
        ("http://[::1/", "missing ']' in host"),
        ("http://[::1%25e%2fn]/", 'invalid URL escape "%2f"'),
        ("http://a:b:1/", 'invalid port ":b:1" after host'),
        ("http://u[@h/", "net/url: invalid userinfo"),
        ("http://h/%4", 'invalid URL escape "%4"'),
        ("", "empty url"),
        ("a/b", "invalid URI for request"),
        ("://h", "missing protocol scheme"),
    ],
)
def test_other_texts_are_no_urls(url, why):
    text = url.replace("'", "\\'")
    told = f'URL parse error during conversion from string: parse "{url}": {why}'
    assert value(f"url('{text}').getHost()") == told
    assert holds(f"!isURL('{text}')")


def test_a_fragment_can_make_a_text_no_url_only_when_its_parts_are_wanted():
    assert holds("isURL('//h%41/')")
    assert value("url('//h%41/').getHost()").endswith('parse "//h%41/": invalid URL escape "%41"')


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://h/a", "http://h/a#b", False),
        ("http://u@h/", "http://h/", False),
        ("HTTP://h/", "http://h/", True),
        ("http://h", "http://h?", False),
        ("x:a", "x:b", False),
        ("http:/p", "http:///p", False),
        ("http://h/a%2fb", "http://h/a/b", False),
    ],
)
def test_urls_are_equal_if_go_writes_them_equally(one, other, same):
    assert holds(f"url('{one}') == url('{other}')") is same


@given(st.text(max_size=30))
def test_any_text_is_a_url_or_not(text):
    quoted = text.encode("unicode_escape").decode().replace("'", "\\x27").replace("\\x27", "'")
    if "'" not in quoted and "\\" not in text:
        assert holds(f"isURL('{quoted}')") is not holds(f"!isURL('{quoted}')")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("1.2.3", "IPv4 address too short"),
        ("1.2.3.4.5", "IPv4 address too long"),
        ("1..3.4", 'IPv4 field must have at least one digit (at ".3.4")'),
        ("01.2.3.4", "IPv4 field has octet with leading zero"),
        ("256.1.1.1", "IPv4 field has value >255"),
        ("1.2.3.a", 'unexpected character (at "a")'),
        ("a", "unable to parse IP"),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2:3:4:5:6:7", "address string too short"),
        ("1:2:3:4:5:6:7:8::", "the :: must expand to at least one field of zeros"),
        ("12345::", 'each group must have 4 or less digits (at "12345::")'),
        ("::g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1:", 'colon must be followed by more characters (at ":")'),
        ("::1%", "zone must be a non-empty string"),
        ("%eth0", "missing IPv6 address"),
    ],
)
def test_errors_of_addresses_are_those_of_netip(address, why):
    told = f'IP Address "{address}" parse error during conversion from string: ParseAddr("{address}"): {why}'
    assert value(f"string(ip('{address}'))") == told


@pytest.mark.parametrize(
    ("cidr", "why"),
    [
        ("1.2.3.4", "no '/'"),
        ("1.2.3/8", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("1.2.3.4/08", 'bad bits after slash: "08"'),
        ("1.2.3.4/33", "prefix length out of range"),
        ("::1%e/64", "IPv6 zones cannot be present in a prefix"),
    ],
)
def test_errors_of_cidrs_are_those_of_netip(cidr, why):
    twice = "network address parse error during conversion from string: " * 2
    assert value(f"string(cidr('{cidr}'))") == f'{twice}netip.ParsePrefix("{cidr}"): {why}'


@pytest.mark.parametrize(
    "expression",
    [
        "type(ip('192.168.0.1')) == net.IP",
        "type(cidr('192.168.0.0/24')) == net.CIDR",
        "net.IP != net.CIDR",
        "{'hello': 'world', 'hello!': 'worlds'}.exists_one(k, v, k.startsWith('hello') && v.endsWith('world'))",
        "![1, 2, 3].exists_one(i, v, i > 0 && v > 1)",
        "[1, 2].exists_one(v, v == 2) && 'x.exists_one(a, b, c)'.size() == 21",
        "[[1, 2], [3]].exists_one (i, v, v.exists_one(j, w, [w, 2].size() == w))",
        "strings.quote('bell\\a\\v') == '\"bell\\\\a\\\\v\"'",
        "ip('ff12::1').isLinkLocalMulticast()",
        "isSemver('18446744073709551615.1.1') && semver('18446744073709551615.1.1').major() == -1",
        "semver('1.2.3+a') == semver('1.2.3+b')",
    ],
)
def test_what_kubernetes_declares_is_known(expression):
    assert holds(expression)


@pytest.mark.parametrize(
    ("quantity", "integer", "real"),
    [
        ("1", "1", "1.000000"),
        ("1Ti", "1099511627776", "1099511627776.000000"),
        ("1Pi", None, "1125899906842624.000000"),
        ("1Ei", None, "1152921504606846976.000000"),
        ("1.5Gi", None, "1610612736.000000"),
        ("1e3", "1000", "1000.000000"),
        ("9223372036854775807", None, "9223372036854775808.000000"),
        ("8Ei", None, "9223372036854775808.000000"),
        ("0.1n", None, "0.000000"),
        (".", "0", "0.000000"),
    ],
)
def test_a_quantity_is_an_integer_if_go_has_it_as_an_int64(quantity, integer, real):
    text = f"quantity('{quantity}')"
    assert holds(f"{text}.isInteger()") is (integer is not None)
    assert value(f"'%s'.format([[{text}.asApproximateFloat()]])") == f"[{real}]"
    told = integer or "cannot convert value to integer"
    assert value(f"string({text}.asInteger())") == told


def test_a_sum_beyond_int64_is_no_integer():
    assert holds("quantity('9E').sub(quantity('1E')).isInteger()")
    assert holds("!quantity('9E').add(quantity('1E')).isInteger()")
    assert holds("quantity('9E').add(quantity('1E')).compareTo(quantity('10E')) == 0")


@pytest.mark.parametrize(
    ("quantity", "why"),
    [
        ("", "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        ("1K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        (".Ei", "unable to parse numeric part of quantity"),
        ("1e1000000000", "unable to parse quantity's suffix"),
    ],
)
def test_errors_of_quantities_name_the_wrong_part(quantity, why):
    assert value(f"string(quantity('{quantity}').isInteger())") == why


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("a.2.3", 'Invalid character(s) found in major number "a"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+a..b", "Build meta data is empty"),
        ("1..1", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("18446744073709551616.1.1", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
    ],
)
def test_errors_of_versions_name_the_wrong_part(version, why):
    assert value(f"string(semver('{version}').major())") == why


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'%s'.format([[1, 'a', 2.5, null, b'x', duration('1s'), {'a': 1}]])",
         '[1, "a", 2.500000, null, b"x", duration("1s"), {"a":1}]'),
        ("'%.2f'.format([-1234567.891])", "-1,234,567.89"),
        ("'%.3e'.format([0.00012345])", "1.234500\N{MULTIPLICATION SIGN}10⁻⁰⁴"),
        ("'%f %e'.format(['Infinity', double('-Infinity')])", "∞ -∞"),
        ("'%s'.format([[double('NaN')]])", '["NaN"]'),
        ("'%s'.format([1234567.8])", "1.2345678e+06"),
        ("string(timestamp('2011-01-03T00:30:00.5+01:00') - duration('1h'))", "2011-01-02T23:30:00.5+01:00"),
        ("string(timestamp('2011-01-03T00:30:00+01:00').getHours())", "23"),
        ("string(1000000.0)", "1e+06"),
        ("string(123456.7)", "123456.7"),
        ("string(-1e-7)", "-1e-07"),
        ("'%.3f'.format([dyn(1)])",
         "error during formatting: fixed-point clause can only be used on doubles, was given int"),
        ("(true ? '%' : '').format([1])", "unexpected end of string"),
        ("(true ? '%.s' : '').format([1])",
         ("could not parse formatting clause: error while parsing precision: error while converting precision to"
         ' integer: strconv.Atoi: parsing "": invalid syntax')),
        ("string('tacocat'.indexOf('', -3))", "-3"),
        ("string('tacocat'.lastIndexOf('', 3))", "3"),
        ("'abc'.substring(9, 5)", "invalid substring range. start: 9, end: 5"),
    ],
)  # fmt: skip
def test_texts_are_those_of_cel_go(expression, text):
    assert value(expression) == text


@pytest.mark.parametrize(
    ("expression", "problems"),
    [
        ("self.x.y.z.startsWith('a') && self.x[0].all(b, b.c) || [self.x] == 1",
         ["1:5: undefined field 'x'", "1:35: undefined field 'x'", "1:61: undefined field 'x'"]),
        ("foo.all(x, x.y == 1)", ["1:1: undeclared reference to 'foo' (in container '')"]),
        ("'%.3f'.format([1])",
         ["1:16: error during formatting: fixed-point clause can only be used on doubles, was given int"]),
        ("'%s'.format([1, 2])",
         ["1:12: too many arguments supplied to string.format (expected 1, got 2)"]),
        ("'%s'.format([[1, url('/a')]])",
         [("1:21: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles,"
          " maps, lists, types, durations, and timestamps, was given kubernetes.URL")]),
        ("[1].exists_one(a, b.c, a == 1)", ["1:20: argument must be a simple name"]),
        ("[1].exists_one(a, b, a == 'x')",
         ["1:24: found no matching overload for '_==_' applied to '(int, string)'"]),
        ("has(self)", ["1:5: invalid argument to has() macro"]),
        ("[1, dyn(2)].size() == 2", ["1:8: expected type 'int' but found 'dyn'"]),
        ("{'a': 1, 2: 'b', 3: 4}.size() == 3",
         ["1:10: expected type 'string' but found 'int'", "1:13: expected type 'int' but found 'string'",
          "1:18: expected type 'string' but found 'int'"]),
        ("quantity('1').x == 1", ["1:14: unexpected failed resolution of 'kubernetes.Quantity'"]),
        ("ip('::').x == 1", ["1:9: type 'net.IP' does not support field selection"]),
        ("has(foo.bar.baz)", ["1:5: undeclared reference to 'foo' (in container '')"]),
        ("[].all(i, i, i < i)", ["1:11: duplicate variable name: i"]),
        ("self.`n` == 1 || 'a`b' == self.`n`",
         ["1:6: unsupported syntax: '`'", "1:32: unsupported syntax: '`'"]),
        ("[[1], [2, 3.0]].size() == 2",
         ["1:7: expected type 'list(int)' but found 'list(dyn)'", "1:11: expected type 'int' but found 'double'"]),
        ("[int, string].size() == 2", ["1:7: expected type 'type(int)' but found 'type(string)'"]),
        ("1e999 > 1.0", ["1:1: invalid double literal"]),
        ("net.X == 1", ["1:1: undeclared reference to 'net' (in container '')"]),
    ],
)  # fmt: skip
def test_only_the_first_error_of_a_mistake_is_reported(expression, problems):
    first, *further = (f"ERROR: <input>:{each}" for each in problems)
    assert refusal(expression) == [f"compilation failed: {first}", *further]
