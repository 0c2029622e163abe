"""TITAN (MM 2023), a file a section: rematching, counterfactual captions, bias correction, pseudo-labels."""
