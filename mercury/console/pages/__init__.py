"""The pages: each reads what it shows from `mercury.operations`, and offers the actions on it."""
