"""The control service, `gridweave-control`: the controller library and the stores over HTTP, for gateways without a way to Kubernetes."""
