"""What one machine offers by itself: a folder of blobs, its clocks and its source of randomness."""
