"""FedCore over real processes: a Flower deployment on loopback, with TLS and node keys."""
