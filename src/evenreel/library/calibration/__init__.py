"""Probabilities of answers, where they were fitted for a library's model.

`signals` are what a search measures, `rule` makes probabilities of them, `file` keeps such a rule, and `fit` finds one
on clips whose captions are known.
"""
