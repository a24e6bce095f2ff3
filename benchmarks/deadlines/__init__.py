"""Which deadline? Fixed ones of many lengths, and those who set it themselves."""
