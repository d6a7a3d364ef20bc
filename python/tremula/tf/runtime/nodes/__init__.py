"""Nodes of a GraphDef: marks, unique names, what is known of each, rewriting."""
