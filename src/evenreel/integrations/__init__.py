"""Integrations: what other projects' harnesses need to run models of evenreel, and readers of their files."""
