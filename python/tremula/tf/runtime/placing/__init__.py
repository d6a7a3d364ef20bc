"""Where sessions place nodes."""
