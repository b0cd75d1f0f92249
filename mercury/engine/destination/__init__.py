"""Destination."""
