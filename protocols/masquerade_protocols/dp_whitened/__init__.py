"""dp-whitened, this program's own: noisy second moments, then a few noisy gradients in whitened coordinates."""
