"""What runs in the sandbox: scripts without a package there, importing the standard library alone."""
