"""The plugin (C) and its devices: loading, calling, configuring, names."""
