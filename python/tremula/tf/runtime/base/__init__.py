"""What the folders of the runtime share: checks of arguments, files, small helpers."""
