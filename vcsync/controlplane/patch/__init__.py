"""How objects are changed by patches, and who owns which of their fields. Pure, on JSON dicts."""
