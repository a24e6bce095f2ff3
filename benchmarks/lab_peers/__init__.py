"""FedAvg and FedBuff beside the nearest public simulators, each under its own virtual clock."""
