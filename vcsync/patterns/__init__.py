"""Regular expressions that take linear time, whatever text a tenant sends."""
