"""What needs optional engines, heavy oracles of others, or a browser."""
