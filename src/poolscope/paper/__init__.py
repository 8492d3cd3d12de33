"""The paper's experiments as data, and the one runner that plays them."""
