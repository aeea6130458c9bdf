"""What developers run: the test bed, audits, generators and benchmarks. Not part of the package."""
