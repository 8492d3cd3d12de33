"""What is true: universe, popularity, behavior, traces."""
