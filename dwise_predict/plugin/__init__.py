"""What a plugin needs in any engine: settings, what it knows of requests, metrics, recording."""
