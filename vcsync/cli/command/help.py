"""Examples in the help of commands."""


def example(*lines: str) -> str:
    """Return an epilog with example lines that click does not wrap (a backspace character marks them)."""
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))
