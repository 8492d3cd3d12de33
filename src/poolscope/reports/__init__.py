"""Reports as columns and files, and what the curator makes of them."""
