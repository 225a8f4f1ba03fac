"""Parts of all connections below HTTP: the kernel's view of a peer, unread bytes, open files."""
