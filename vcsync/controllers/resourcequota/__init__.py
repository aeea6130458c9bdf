"""The usage that ResourceQuotas report."""
