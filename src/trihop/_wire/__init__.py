"""What goes over the wire: `requests` and urllib3, and one request at a time."""
