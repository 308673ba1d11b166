"""Files that users have sent: where they lie, and how runs read them."""
