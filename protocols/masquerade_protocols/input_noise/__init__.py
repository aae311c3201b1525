"""Input noise, by Bixler: every party learns from noisy copies of its records."""
