//! Where the log's lines go: into a buffer, which a thread empties a hundred times a second, so that a request does not pay a
//! system call for each line.
//!
//! No line is dropped: where the buffer is full, whoever has a line empties it first. Lines come out in the order in which they
//! were written, each whole. Errors go out at once, and everything does at the end. What a line looks like is not known here.

use std::{
    io::{self, Write},
    panic,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError},
    thread,
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// How long a line waits at most.
const EVERY: Duration = Duration::from_millis(10);
/// How many bytes may wait.
const MOST: usize = 256 << 10;

struct Lines {
    waiting: Mutex<Vec<u8>>,
    begun: Condvar,
    output: Mutex<Output>,
}

struct Output {
    to: Box<dyn Write + Send>,
    /// Empty between two flushes; its memory is used again.
    taken: Vec<u8>,
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    fn push(&self, line: &[u8]) -> usize {
        let mut waiting = held(&self.waiting);
        let begins = waiting.is_empty();
        waiting.extend_from_slice(line);
        let many = waiting.len();
        drop(waiting);
        if begins {
            self.begun.notify_one();
        }
        many
    }

    /// Writes what waits. What is taken is written before the next is: the output is held all the while. An output that can
    /// not be written to has no one to tell.
    fn flush(&self, mut output: MutexGuard<'_, Output>) {
        let Output { to, taken } = &mut *output;
        std::mem::swap(&mut *held(&self.waiting), taken);
        let _ = to.write_all(taken).and_then(|()| to.flush());
        taken.clear();
    }

    fn wait(&self) {
        let waiting = held(&self.waiting);
        drop(self.begun.wait_while(waiting, |waiting| waiting.is_empty()).unwrap_or_else(PoisonError::into_inner));
    }
}

/// The log's buffer; its copies are the same one.
#[derive(Clone)]
pub struct LogWriter(Arc<Lines>);

impl std::fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LogWriter")
    }
}

impl LogWriter {
    /// A buffer before this output, and the thread that empties it.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(to: impl Write + Send + 'static) -> io::Result<Self> {
        let output = Output { to: Box::new(to), taken: Vec::new() };
        let lines = Arc::new(Lines { waiting: Mutex::default(), begun: Condvar::new(), output: Mutex::new(output) });
        let of_thread = Arc::clone(&lines);
        thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                of_thread.wait();
                thread::sleep(EVERY);
                of_thread.flush(held(&of_thread.output));
            }
        })?;
        Ok(Self(lines))
    }

    /// Writes what waits, and returns when it is written.
    pub fn flush(&self) {
        self.0.flush(held(&self.0.output));
    }

    /// Writes what waits whenever something panics, before the panic is told: it may be the end.
    pub fn flush_at_panics(&self) {
        let (lines, tell) = (Arc::clone(&self.0), panic::take_hook());
        panic::set_hook(Box::new(move |panicked| {
            // Whoever panicked may be the one that writes.
            match lines.output.try_lock() {
                Ok(output) => lines.flush(output),
                Err(TryLockError::Poisoned(output)) => lines.flush(output.into_inner()),
                Err(TryLockError::WouldBlock) => {}
            }
            tell(panicked);
        }));
    }
}

/// Writes what waits when it is dropped: what `main` holds to its end.
#[derive(Debug)]
pub struct FlushedAtEnd(pub LogWriter);

impl Drop for FlushedAtEnd {
    fn drop(&mut self) {
        self.0.flush();
    }
}

/// Takes one event's lines.
#[derive(Debug)]
pub struct Line<'a> {
    to: &'a LogWriter,
    at_once: bool,
}

impl Write for Line<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.to.0.push(line) >= MOST || self.at_once {
            self.to.flush();
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line { to: self, at_once: false }
    }

    fn make_writer_for(&'a self, of: &Metadata<'_>) -> Line<'a> {
        Line { to: self, at_once: *of.level() == Level::ERROR }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// What was written, and how often.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<(Vec<u8>, usize)>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut paper = held(&self.0);
            paper.0.extend_from_slice(bytes);
            paper.1 += 1;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(held(&self.0).0.clone()).unwrap()
        }
        fn writes(&self) -> usize {
            held(&self.0).1
        }
    }

    /// A logger whose thread has nothing to do with the test.
    fn started() -> (LogWriter, Paper) {
        let paper = Paper::default();
        (LogWriter::start(paper.clone()).unwrap(), paper)
    }

    fn log(writer: &LogWriter, event: impl FnOnce()) {
        let subscriber = tracing_subscriber::fmt().with_writer(writer.clone()).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, event);
    }

    #[test]
    fn what_waits_is_written_by_itself_and_soon() {
        let (writer, paper) = started();
        log(&writer, || (0..100).for_each(|n| tracing::info!(n, "a line")));
        let begun = Instant::now();
        while paper.text().lines().count() < 100 {
            assert!(begun.elapsed() < Duration::from_secs(20), "{}", paper.text());
            thread::sleep(Duration::from_millis(1));
        }
        assert!(paper.writes() < 100, "lines are written together, not in {} writes", paper.writes());
    }

    #[test]
    fn an_error_is_written_before_it_returns_and_so_is_what_came_before() {
        let (writer, paper) = started();
        // The thread is made to wait, so that it is the error that writes.
        let output = held(&writer.0.output);
        log(&writer, || tracing::info!("first"));
        assert_eq!(paper.text(), "");
        drop(output);
        log(&writer, || tracing::error!("second"));
        let text = paper.text();
        assert!(text.find("first").unwrap() < text.find("second").unwrap(), "{text}");
    }

    #[test]
    fn the_end_writes_everything() {
        let (writer, paper) = started();
        let end = FlushedAtEnd(writer.clone());
        log(&writer, || tracing::info!("the last line"));
        drop(end);
        assert!(paper.text().contains("the last line"));
    }

    #[test]
    fn a_full_buffer_makes_its_writers_wait_and_loses_nothing() {
        let (writer, paper) = started();
        let output = held(&writer.0.output);
        let (line, each) = ([b'x'; 1023], 200);
        let writers: Vec<_> = (0..4)
            .map(|_| {
                let writer = writer.clone();
                thread::spawn(move || {
                    for _ in 0..each {
                        writer.make_writer().write_all(&[line.as_slice(), b"\n"].concat()).unwrap();
                    }
                })
            })
            .collect();
        thread::sleep(Duration::from_millis(100));
        let waiting = held(&writer.0.waiting).len();
        assert!((MOST..MOST + 4 * 1024).contains(&waiting), "{waiting} bytes wait");
        assert!(writers.iter().any(|writer| !writer.is_finished()));
        drop(output);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        writer.flush();
        let text = paper.text();
        assert_eq!(text.lines().count(), 4 * each);
        assert!(text.lines().all(|line| line.len() == 1023), "each line is whole");
    }
}
