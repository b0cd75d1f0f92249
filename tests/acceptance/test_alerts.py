"""Every alert rule fires in the condition that it is for."""
