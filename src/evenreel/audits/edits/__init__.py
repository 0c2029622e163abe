"""Audits of edits: what a ranking loses when pictures or captions are changed, or words are laid over pictures."""
