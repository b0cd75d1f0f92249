"""What operators see and do, as calls by name with arguments and results of JSON: one table for the command line, which
opens a store, and for the operator's API, by which it reaches a running process."""
