"""The lab: replay recorded or generated sessions under a policy and measure what would be sent."""
