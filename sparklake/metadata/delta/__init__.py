"""The Delta log format as values: file names, actions, paths, unions."""
