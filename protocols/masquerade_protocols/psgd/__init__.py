"""PSGD of Rajkumar and Agarwal (2012), and the two protocols that their paper tries and rejects."""
