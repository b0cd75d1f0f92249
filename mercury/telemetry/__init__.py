"""Metrics and traces: what a process counts and measures, the gauges of its store, and their exporters."""
