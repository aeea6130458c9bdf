"""The framework of all controllers: engine, mirrors, plans, committer."""
