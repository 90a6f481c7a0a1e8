//! Readers of streams: bytes of files and pipes in, batches of hashed keys out.
