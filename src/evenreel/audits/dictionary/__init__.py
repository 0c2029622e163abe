"""What a dictionary of scene elements covers, and how evenly its phrases are spread over clips."""
