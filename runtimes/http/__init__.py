"""What answers over HTTP: the gateway."""
