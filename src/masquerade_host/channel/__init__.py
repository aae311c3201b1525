"""A reliable channel between a party and Charlie, over connections that come and go."""
