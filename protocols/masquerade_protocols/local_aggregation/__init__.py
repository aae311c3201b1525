"""Local aggregation (Pathak, Rane, Raj 2010): the average of all classifiers, with noise for the smallest party."""
