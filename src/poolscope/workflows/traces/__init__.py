"""Raw recorded data to traces."""
