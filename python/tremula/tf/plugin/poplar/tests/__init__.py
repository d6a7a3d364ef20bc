"""What tests of the original import from its own tests."""
