"""What programs leave to the host: sessions by number, functions that programs call."""
