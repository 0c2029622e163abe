"""Audits of edits: what a ranking loses where pictures, captions, or words laid over pictures are changed."""
