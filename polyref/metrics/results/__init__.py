"""What scoring finds: the scores of each metric, what a test says of them, and the table that shows them."""
