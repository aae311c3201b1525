"""PSGD of Rajkumar and Agarwal (2012), and the two attempts that their paper rejects."""
