"""Pure functions from values to text, HTML, DataFrames and graph specifications. Text first, HTML embeds it, escaped."""
