"""Several trainings that become one matcher: members, their training clips, and the weights of their scores."""
