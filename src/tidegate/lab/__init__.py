"""The lab: recorded or generated sessions, replayed under a policy, measured on what would be sent."""
