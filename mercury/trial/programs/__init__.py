"""The built-in client and server of a trial, which run as processes of their own."""
