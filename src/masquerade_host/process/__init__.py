"""A participant's process: it drives a role and a session, and tells its operator what happens."""
