"""What is true: universe, popularity, behaviour, traces."""
