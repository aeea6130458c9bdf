"""Lists and watches over embedded and external control planes in one answer."""
