"""Clients of services of ours: ports and the controller library over HTTP, for processes that can't reach what is behind them."""
