"""A simulated fleet of clients and the rounds it trains for."""
