"""The simulator as a program: files in, tables and pictures out."""
