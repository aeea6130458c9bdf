"""Validation rules that many kinds share: names, labels, fields."""
