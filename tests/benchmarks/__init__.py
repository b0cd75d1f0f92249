"""The benchmarks run, and their tables are complete; nothing is timed."""
