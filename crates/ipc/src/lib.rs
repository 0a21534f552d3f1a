//! What a client process and the daemon say to each other: messages, shared control queues, and the client's end.
