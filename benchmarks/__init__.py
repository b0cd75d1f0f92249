"""Measurements, run on purpose: `make bench`. Only ratios within one run mean anything."""
