"""The garbage collector: deletes dependents whose owners are gone."""
