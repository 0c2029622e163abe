"""Evidence: what each planted bias costs in each world, and what corrections bring back of it."""
