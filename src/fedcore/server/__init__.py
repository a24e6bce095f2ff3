"""What the server does: plan, execute, aggregate, evaluate, keep time."""
