"""Developer tools: the test bed, audits, generators and benchmarks. Not part of the installed package."""
