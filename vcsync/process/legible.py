"""Text without characters that control a terminal: names and messages come from tenants and servers. Pure."""

_ENDS = frozenset("\t\n")
_CONTROL = [
    chr(code)
    for low, high in ((0x00, 0x1F), (0x7F, 0x9F), (0x2028, 0x202E), (0x2066, 0x2069))
    for code in range(low, high + 1)
]
"""C0, DEL and C1, line and paragraph separators, and characters that change the direction of text."""
_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in _CONTROL}
_IN_LINES = {code: escape for code, escape in _ESCAPES.items() if chr(code) not in _ENDS}


def legible(text: str) -> str:
    """Escape control characters, ends of lines among them."""
    return text if text.isprintable() else text.translate(_ESCAPES)


def legible_lines(text: str) -> str:
    """Escape all control characters but ends of lines and tabs. JSON stays the same value, since it has no others in it."""
    return text if text.isprintable() else text.translate(_IN_LINES)
