"""evaluation, this program's own: how good a model that exists is on the parties' records, under noise."""
