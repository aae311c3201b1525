"""Charlie and K parties as processes on this machine, with keys, a study and data of their own."""

from masquerade.demo.plan import Plan, discard, prepare
from masquerade.demo.play import Played, play, play_in_memory

__all__ = ["Plan", "Played", "discard", "play", "play_in_memory", "prepare"]
