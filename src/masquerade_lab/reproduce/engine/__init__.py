"""The engine of all reproductions: tasks and what runs and keeps them, rows with bands, files, pictures.

It knows no paper. Each paper's own module says what is computed, and what is shown and checked.
"""
