"""What carries a role: driver, transport, sessions, journal and key files."""
