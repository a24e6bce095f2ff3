"""What datasets are made of: files, formats, partitions, clients."""
