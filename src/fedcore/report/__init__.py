"""Records on disk, and the tables and pictures made from them; never imports the simulator."""
