"""A package beside the script, with a file of data in it."""
