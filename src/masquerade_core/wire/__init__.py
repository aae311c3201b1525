"""Messages, their bounded codec, and signed frames."""
