"""What the convergence theorem says of deadlines, beside what happens: README.md."""
