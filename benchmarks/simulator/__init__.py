"""Client-steps per second: clients side by side against the plain loop."""
