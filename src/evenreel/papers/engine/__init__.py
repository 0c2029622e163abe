"""What the tables of all papers are made with: variants and seeds in, trained models, means and changes out."""
