"""From a Python function to a function graph, and what a program keeps."""
