"""The web console: pages over `mercury.operations`, rendered on the server. Needs the extra ``console``."""
