"""What more than one protocol is built from."""
