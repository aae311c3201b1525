"""Sockets: how frames get from one machine to another, and who may connect."""
