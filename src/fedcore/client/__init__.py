"""How one client's work is done: schedule of batches, one step, loops around it."""
