"""What a participant's machine keeps: journal, ledger, keys, results, and the site's rules."""
