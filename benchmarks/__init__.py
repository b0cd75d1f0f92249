"""Measures performance: `make bench`. Only the ratios within one run are comparable."""
