"""Queries for operators: pages and figures whose cost does not grow with the tables."""
