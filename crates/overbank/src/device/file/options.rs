//! How a file device does its I/O: what its user asks for.

/// How batches of reads reach the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// io_uring if the kernel lets this process have one, else threads.
    #[default]
    Auto,
    /// io_uring, or an error: containers often forbid it, and only Linux has it.
    IoUring,
    /// Positional reads on a pool of threads.
    Threads,
}

/// Whether files bypass the page cache (O_DIRECT).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Direct {
    /// Where the file system allows it.
    #[default]
    Auto,
    /// Always, or an error; only Linux has it.
    On,
    /// Never.
    Off,
}

/// How a [`FileDevice`](super::FileDevice) does its I/O.
#[derive(Clone, Copy, Debug)]
pub struct FileOptions {
    pub(super) engine: Engine,
    pub(super) direct: Direct,
    pub(super) threads_max: usize,
    pub(super) refuse_io_uring: bool,
    pub(super) portable: bool,
}

impl Default for FileOptions {
    fn default() -> Self {
        // 128 is the greatest depth that a structure asks for; a thread blocked in a read costs a 64 KiB stack.
        Self {
            engine: Engine::Auto,
            direct: Direct::Auto,
            threads_max: 128,
            refuse_io_uring: false,
            portable: false,
        }
    }
}

impl FileOptions {
    /// Everything chosen by probe.
    pub fn new() -> Self {
        Self::default()
    }

    /// How batches of reads reach the kernel.
    pub fn engine(mut self, engine: Engine) -> Self {
        self.engine = engine;
        self
    }

    /// Whether files bypass the page cache.
    pub fn direct(mut self, direct: Direct) -> Self {
        self.direct = direct;
        self
    }

    /// The most threads that [`Engine::Threads`] keeps, at least 1; default 128. It bounds the depth of all batches
    /// of the device together.
    pub fn threads_max(mut self, threads: usize) -> Self {
        self.threads_max = threads;
        self
    }

    /// Acts as if the kernel had refused io_uring, as many containers do.
    pub fn refuse_io_uring(mut self, refuse: bool) -> Self {
        self.refuse_io_uring = refuse;
        self
    }

    /// Uses only what the standard library has on every system, as it is done where there is nothing faster: paths instead of the
    /// directory's descriptor, the page cache, reads on threads. Slower on Linux; for tests, and to tell whether a fault is a
    /// file system's.
    pub fn portable(mut self, portable: bool) -> Self {
        self.portable = portable;
        self
    }
}
