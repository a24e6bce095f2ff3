"""What the server does: plan, execute, aggregate, keep time."""
