"""How the help of every command shows examples."""


def example(*lines: str) -> str:
    """Return an epilog with example lines that click leaves as they are (its mark for that is a backspace)."""
    return "\n".join(("\b", "Example:", *(f"  {line}" for line in lines)))
