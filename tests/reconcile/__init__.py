"""Tests of the reconciler. Those with Spark share one session."""
