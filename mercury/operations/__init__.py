"""What an operator sees and does: reads with a bounded cost, and actions that are written to the audit.

It needs a store in a database, and no running process. The command line and the console are built on it.
"""
