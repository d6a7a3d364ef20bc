"""What ends runs, forked processes, and the options of sessions."""
