"""What is measured, and by which command."""
