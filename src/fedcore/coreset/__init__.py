"""Where the coreset gets built: how large (budget), from what (proxies), by whom (selectors)."""
