"""Audit of a scene dictionary: what it covers of captions, and how evenly its phrases are spread over clips."""
