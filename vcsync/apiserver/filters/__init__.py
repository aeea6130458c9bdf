"""The filter chain that every request passes through before its handler."""
