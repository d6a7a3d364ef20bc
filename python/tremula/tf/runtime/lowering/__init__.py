"""From a function graph to HLO, before a program runs or while it runs."""
