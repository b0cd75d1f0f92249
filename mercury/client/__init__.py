"""What an application calls to send."""
