"""Several trainings that become one matcher: members, what each learns from, how their scores are weighed."""
