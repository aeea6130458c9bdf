"""Patches of objects, server-side apply and field management. Pure, on JSON dicts."""
