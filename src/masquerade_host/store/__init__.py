"""The files on a participant's machine: journal, ledger, keys, results, and the site's rules."""
