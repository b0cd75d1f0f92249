"""The protocol as pure state machines over transition tables that are data.

Rules for this package: the standard library only; no clock, no random numbers, no identifiers made up here, no
logging, no XML and no SQL. Events and the time go in; the new state and effects come out.
"""
