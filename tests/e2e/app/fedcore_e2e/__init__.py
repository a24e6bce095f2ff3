"""An app for tests over real processes; its clients need NumPy alone, so that they start fast."""
