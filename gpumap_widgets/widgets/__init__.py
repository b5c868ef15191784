"""The explorer. Widgets bind, they do not think: every decision is made by the model."""
